#pragma once

// A job that was submitted to Slurm, as its run sees it.

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/exec/engine_group.h"
#include "mlbench/exec/question.h"
#include "mlbench/exec/slurm/answers.h"

namespace mlbench::exec::slurm {

struct JobPace {
  // The least time between two looks at the job, and the most, which is reached where nothing changes.
  std::chrono::milliseconds look{1000}, slow_look{5000};
  // The limit for an answer of scontrol or scancel.
  std::chrono::milliseconds answer{15000};
  // The limit from the moment when the job runs until all ranks run: for setup, images, and the guards.
  std::chrono::milliseconds start{std::chrono::minutes(10)};
  // How long Slurm may take, once a rank has ended of SIGTERM, to say what it did.
  std::chrono::milliseconds verdict{3000};
  // The limit for the end of a job that was cancelled.
  std::chrono::milliseconds cancel{std::chrono::minutes(1)};
};

// The commands of scontrol and scancel about a job.
std::vector<std::string> show_command(const JobName& name);
std::vector<std::string> cancel_command(const JobName& name);

class Job final : public EngineJob {
 public:
  // `log` is the file to which the job writes; it is quoted in messages where it can be read here.
  Job(JobName name, std::filesystem::path log, JobPace pace = {});

  StartStatus status() override;
  void extend_start() override { running_since_.reset(); }
  std::vector<EngineWord> news() override;
  std::chrono::milliseconds verdict_time() const override { return pace_.verdict; }
  void hurry() override;
  Json allocation() override;
  void end(std::chrono::milliseconds patience) override;

 private:
  using Clock = std::chrono::steady_clock;

  void look();
  std::optional<EngineWord> done() const;  // what became of the job; empty: nothing did
  void take(const Answer& answer);
  void look_and_wait();
  // Whether the job is over; waits up to `patience` for that, looking now and then. Unless `stays_queued`, does not
  // wait for a job that is queued.
  bool gone_within(std::chrono::milliseconds patience, bool stays_queued);
  void cancel() const;
  bool gone() const { return unknown_ || (info_ && info_->phase() == JobPhase::kEnded); }
  std::string said(const std::string& what) const;

  const JobName name_;
  const std::filesystem::path log_;
  const JobPace pace_;
  std::unique_ptr<Question> question_;
  Clock::time_point next_look_, last_look_;
  std::chrono::milliseconds wait_;
  std::optional<JobInfo> info_;  // as last seen
  bool unknown_ = false;         // Slurm has no such job any more
  std::string silence_;          // why there is no newer answer
  std::optional<Clock::time_point> running_since_;
  bool hurried_ = false;
  bool ran_ = false;  // whether its ranks ran
  std::string told_;  // the last words that news() returned
};

}  // namespace mlbench::exec::slurm
