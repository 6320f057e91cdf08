#pragma once

// For tests: an executor whose engine lets ranks wait, or refuses them, and has hosts of its own. The executor starts
// ranks through another one.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/exec/executor.h"

namespace mlbench::exec {

// The first status that has `state`, or says that the start failed; the last one where neither comes within `patience`.
inline StartStatus status_with(StartState state, Start& start, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  StartStatus status;
  do {
    status = start.poll(std::min(patience, std::chrono::milliseconds(100)));
  } while (status.state != state && status.state != StartState::kFailed && std::chrono::steady_clock::now() < deadline);
  return status;
}

// Expects that status.
inline StartStatus wait_for(Start& start, StartState state) {
  const StartStatus status = status_with(state, start, std::chrono::seconds(30));
  EXPECT_EQ(status.state, state) << status.words;
  return status;
}

// Starts the ranks, and waits until all run. Throws IoError with the engine's words where they do not within
// `patience`.
inline std::unique_ptr<RankGroup> start_and_wait(Executor& executor, const LaunchRequest& request,
                                                 std::chrono::milliseconds patience) {
  const auto start = executor.start(request);
  const StartStatus status = status_with(StartState::kStarted, *start, patience);
  if (status.state == StartState::kStarted) return start->take();
  if (status.state == StartState::kFailed) throw IoError(status.words);
  throw IoError("executor " + executor.name() + ": the ranks do not run in time: " + status.words);
}

// What a rank of the first segment has written to its standard output.
inline std::string log_of(int rank, const std::filesystem::path& logs) {
  const std::filesystem::path path = rank_log_path(logs, 1, rank, LogStream::kStdout);
  return std::filesystem::exists(path) ? read_file(path) : "";
}

inline void wait_for_log(int rank, const std::string& text, const std::filesystem::path& logs) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (log_of(rank, logs).find(text) == std::string::npos) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "rank " << rank << " never said " << text;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

// The observations of one kind among `seen`.
template <typename Kind>
std::vector<Kind> only(const std::vector<Observation>& seen) {
  std::vector<Kind> found;
  for (const Observation& one : seen) {
    if (const auto* kind = std::get_if<Kind>(&one)) found.push_back(*kind);
  }
  return found;
}

// The next observations of that kind; none where nothing is seen within `patience`.
template <typename Kind>
std::vector<Kind> next_of(RankGroup& group, std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::vector<Kind> found;
  while (found.empty() && std::chrono::steady_clock::now() < deadline) {
    found = only<Kind>(group.poll(std::min(patience, std::chrono::milliseconds(50))));
  }
  return found;
}

// What the engine says, line by line, each for `looks` calls of poll(). Then the ranks start, unless a line refuses
// them.
struct EngineScript {
  struct Line {
    StartState state = StartState::kQueued;
    std::string words = {};
    int looks = 1;
  };
  std::vector<Line> lines = {};
  bool on_this_host = false;
  std::vector<Placement> placement = {};  // in place of the other executor's, unless empty
  std::vector<HostCapture> captures = {};
  std::vector<std::string> notes = {};  // given while ranks run
};

// What became of the starts. Tests share it with the executor, which may be gone when they look.
struct EngineLog {
  std::atomic<int> starts = 0, launched = 0, withdrawn = 0;
};

class ScriptedExecutor final : public Executor {
 public:
  ScriptedExecutor(std::unique_ptr<Executor> below, EngineScript script,
                   std::shared_ptr<EngineLog> log = std::make_shared<EngineLog>())
      : below_(std::move(below)), script_(std::move(script)), log_(std::move(log)) {}

  std::string name() const override { return "scripted"; }
  ExecutorFacts facts() const override { return {.on_this_host = script_.on_this_host}; }
  std::vector<std::string> describe(const LaunchRequest& request) const override { return below_->describe(request); }
  std::unique_ptr<Start> start(const LaunchRequest& request) override {
    ++log_->starts;
    return std::make_unique<ScriptedStart>(*below_, request, script_, log_);
  }

 private:
  class Group final : public RankGroup {
   public:
    Group(std::unique_ptr<RankGroup> below, const EngineScript& script)
        : below_(std::move(below)), placement_(script.placement), captures_(script.captures), notes_(script.notes) {}
    std::vector<Observation> poll(std::chrono::milliseconds timeout) override { return below_->poll(timeout); }
    bool running() const override { return below_->running(); }
    std::chrono::milliseconds verdict_time() const override { return below_->verdict_time(); }
    std::vector<std::string> notes() override { return std::exchange(notes_, {}); }
    std::vector<std::optional<pid_t>> pids() const override { return below_->pids(); }
    std::vector<Placement> placement() const override { return placement_.empty() ? below_->placement() : placement_; }
    GroupUsage usage() const override { return below_->usage(); }
    std::vector<HostCapture> captures() const override { return captures_; }
    void signal_all(int signal_number) override { below_->signal_all(signal_number); }
    void stop(std::chrono::milliseconds patience) override { below_->stop(patience); }

   private:
    std::unique_ptr<RankGroup> below_;
    const std::vector<Placement> placement_;
    const std::vector<HostCapture> captures_;
    std::vector<std::string> notes_;
  };

  class ScriptedStart final : public Start {
   public:
    ScriptedStart(Executor& below, LaunchRequest request, EngineScript script, std::shared_ptr<EngineLog> log)
        : below_(below), request_(std::move(request)), script_(std::move(script)), log_(std::move(log)) {}
    ~ScriptedStart() override {
      if (!taken_) ++log_->withdrawn;
    }

    StartStatus poll(std::chrono::milliseconds timeout) override {
      constexpr std::chrono::milliseconds kLook{20};
      for (; line_ < script_.lines.size(); ++line_, looks_ = 0) {
        const EngineScript::Line& line = script_.lines[line_];
        if (line.state == StartState::kFailed) return {line.state, line.words};
        if (looks_++ >= line.looks) continue;
        std::this_thread::sleep_for(std::min(timeout, kLook));
        return {line.state, line.words};
      }
      if (!start_) {
        start_ = below_.start(request_);
        ++log_->launched;
      }
      return start_->poll(timeout);
    }

    std::unique_ptr<RankGroup> take() override {
      taken_ = true;
      return std::make_unique<Group>(start_->take(), script_);
    }

   private:
    Executor& below_;
    const LaunchRequest request_;
    const EngineScript script_;
    const std::shared_ptr<EngineLog> log_;
    size_t line_ = 0;
    int looks_ = 0;
    bool taken_ = false;
    std::unique_ptr<Start> start_;
  };

  const std::unique_ptr<Executor> below_;
  const EngineScript script_;
  const std::shared_ptr<EngineLog> log_;
};

}  // namespace mlbench::exec
