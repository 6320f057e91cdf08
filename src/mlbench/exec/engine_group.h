#pragma once

// What an engine runs for ranks on other hosts (an mpirun, a job), together with the links to their guards: the start
// and the group that an executor returns. For executors alone.

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/exec/executor.h"

namespace mlbench::exec {

// The engine's job, which starts the guards of all ranks. Precondition of destruction: end() was called.
class EngineJob {
 public:
  virtual ~EngineJob() = default;
  // How far the engine is with the job, in the engine's words. kStarted: the engine says that the guards run; whether
  // the ranks run, their links say. kFailed is final, and its words say why. Returns within a moment: an engine that is
  // slow to answer is asked only now and then.
  virtual StartStatus status() = 0;
  // Called while files are on their way to the ranks: the job's time limit for the start begins anew.
  virtual void extend_start() {}
  // What became of the job since the last call, each fact once. Called once the ranks run; returns within a moment.
  virtual std::vector<EngineWord> news() = 0;
  // Answers what RankGroup::verdict_time() asks.
  virtual std::chrono::milliseconds verdict_time() const { return std::chrono::milliseconds(0); }
  // Called when a rank has ended: the engine is asked within a second whether that was its doing.
  virtual void hurry() {}
  // Answers what RankGroup::notes() asks.
  virtual std::vector<std::string> notes() { return {}; }
  // Answers what RankGroup::allocation() asks. Called while ranks run.
  virtual Json allocation() { return nullptr; }
  // Ends the job. Called once, after the guards that came were told to end, for which they need up to `patience`. The
  // job has that time to end by itself, and as long as the engine takes to notice its end; then end() cancels it.
  // Returns when nothing of the job is left here and nothing of it can come later, or after a time limit of its own.
  // Throws nothing.
  virtual void end(std::chrono::milliseconds patience) = 0;
};

class EngineGroup final : public RankGroup {
 public:
  // How long the job may take to end by itself: where ranks still ran, and where none did.
  static constexpr std::chrono::seconds kRankPatience{5};
  static constexpr std::chrono::seconds kGuardPatience{2};

  EngineGroup(std::unique_ptr<EngineJob> job, std::unique_ptr<RankGroup> links)
      : job_(std::move(job)), links_(std::move(links)) {}
  ~EngineGroup() override {
    const bool ranks_run = links_->running();
    links_.reset();  // tells the guards, which end what is left of their ranks
    job_->end(ranks_run ? kRankPatience : kGuardPatience);
  }

  std::vector<Observation> poll(std::chrono::milliseconds timeout) override {
    std::vector<Observation> seen = links_->poll(timeout);
    const auto exited = [](const Observation& one) { return std::holds_alternative<RankExit>(one); };
    if (std::ranges::any_of(seen, exited)) job_->hurry();
    std::ranges::move(job_->news(), std::back_inserter(seen));
    if (seen.empty() && !links_->running()) std::this_thread::sleep_for(std::min(timeout, kLook));
    return seen;
  }
  bool running() const override { return links_->running(); }
  std::chrono::milliseconds verdict_time() const override { return job_->verdict_time(); }
  std::vector<std::string> notes() override { return job_->notes(); }
  std::vector<std::optional<pid_t>> pids() const override { return links_->pids(); }
  std::vector<Placement> placement() const override { return links_->placement(); }
  GroupUsage usage() const override { return links_->usage(); }
  Json allocation() const override { return job_->allocation(); }
  std::vector<HostCapture> captures() const override { return links_->captures(); }
  void signal_all(int signal_number) override { links_->signal_all(signal_number); }
  void stop(std::chrono::milliseconds patience) override { links_->stop(patience); }

 private:
  static constexpr std::chrono::milliseconds kLook{100};

  std::unique_ptr<EngineJob> job_;
  std::unique_ptr<RankGroup> links_;
};

class EngineStart final : public Start {
 public:
  // `links` is the start that start_linked() made for the guards of the job.
  EngineStart(std::unique_ptr<EngineJob> job, std::unique_ptr<Start> links)
      : job_(std::move(job)), links_(std::move(links)) {}
  ~EngineStart() override { give_up(); }

  StartStatus poll(std::chrono::milliseconds timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    for (bool first = true; status_.state != StartState::kStarted && status_.state != StartState::kFailed;
         first = false) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      const StartStatus before = status_;
      look(first ? std::chrono::milliseconds(0) : std::clamp(left, std::chrono::milliseconds(0), kLook));
      const bool further = status_.state != before.state || status_.words != before.words;
      if (further || std::chrono::steady_clock::now() >= deadline) break;
    }
    return status_;
  }

  std::vector<std::string> notes() override {
    if (job_) std::ranges::move(job_->notes(), std::back_inserter(notes_));
    return std::exchange(notes_, {});
  }

  std::unique_ptr<RankGroup> take() override {
    MLBENCH_CHECK(status_.state == StartState::kStarted && job_, "only ranks that run can be taken, once");
    return std::make_unique<EngineGroup>(std::move(job_), links_->take());
  }

 private:
  static constexpr std::chrono::milliseconds kLook{100};
  void look(std::chrono::milliseconds wait) {
    // What a guard says is taken before what the engine makes of the guard's end.
    if (decided_by_links(wait)) return;
    if (links_->gives_files()) job_->extend_start();
    StartStatus said = job_->status();
    if (said.state == StartState::kFailed) {
      if (decided_by_links(std::chrono::milliseconds(0))) return;
      if (const auto missing = said.late ? links_->missing() : std::nullopt) {
        said.rank = missing->rank;
        said.words += "; " + missing->words;
      }
      give_up();
    } else if (said.state == StartState::kStarted) {
      said.state = StartState::kStarting;
    }
    status_ = std::move(said);
  }

  bool decided_by_links(std::chrono::milliseconds wait) {
    StartStatus said = links_->poll(wait);
    if (said.state != StartState::kStarted && said.state != StartState::kFailed) return false;
    if (said.state == StartState::kFailed) give_up();
    status_ = std::move(said);
    return true;
  }

  void give_up() {
    if (!job_) return;
    notes_ = notes();
    links_.reset();
    job_->end(status_.state == StartState::kQueued ? std::chrono::seconds(0) : EngineGroup::kRankPatience);
    job_.reset();
  }

  std::unique_ptr<EngineJob> job_;
  std::unique_ptr<Start> links_;
  std::vector<std::string> notes_;  // those of a job that is gone
  StartStatus status_{StartState::kStarting};
};

}  // namespace mlbench::exec
