#pragma once

// What the ends, words and silence of ranks mean for their run: how it ended, or that it goes on. What is seen of the
// ranks is handed in, and so is the time.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/process.h"
#include "mlbench/exec/executor.h"
#include "mlbench/net/kv/kv.h"
#include "mlbench/record/build_record.h"
#include "mlbench/supervise/control.h"
#include "mlbench/supervise/culprit.h"
#include "mlbench/supervise/traces.h"

namespace mlbench::supervise {

// How a segment ended.
struct Outcome {
  record::RunState state = record::RunState::kFinished;
  std::optional<record::Failure> failure;  // with the state kFailed, and only then
  // It failed for the place of ranks, which an engine lost or took away (exec::LauncherDeath), or whose host is out of
  // reach: they could go on elsewhere, or later.
  bool lost_place = false;
};
Outcome failed(std::string kind, std::string message, int64_t rank = -1);
Outcome ended_on_request(EndRequest request);
// Of `mlbench supervise`.
ExitCode exit_code_of(record::RunState state);

struct RankEnd {
  ProcessEnd end;
  int64_t order = 0;  // 0 was seen first
  TimePoint when;
  bool lost = false;     // nobody saw it: its host is out of reach
  std::string why = {};  // of exec::RankExit
};

// What is seen of a rank at one moment.
struct RankView {
  net::RankStatus status;      // its connection and its words; with the host, also where it has not joined
  std::optional<RankEnd> end;  // by its own doing, not ours
  char process_state = '?';    // as in /proc/PID/stat; '?': not on this host, or gone
  bool out_of_reach = false;   // of exec::RankGroup
};

struct RunView {
  std::vector<RankView> ranks;
  bool running = true;                                // any rank
  std::optional<exec::LauncherDeath> launcher_death;  // of exec::RankGroup
};

struct JudgeOptions {
  bool own_worker = true;  // else programs of others: no rendezvous, no heartbeat, only how they end can be seen
  double comm_timeout_s = 30;
  std::chrono::seconds start_timeout{60};  // until all ranks joined the rendezvous
  // Whether a rank that ended with code 0 had come to the end of its work; asked at most once per rank.
  std::function<bool(size_t rank)> work_ended;
  // What a rank leaves behind of its failure; asked once something is wrong.
  std::function<WordsLeft(size_t rank)> words_left = nullptr;
};
// For the segment's ranks, of which the run's folder tells; `run` outlives them.
JudgeOptions judge_options(const spec::RunSpec& run, int64_t segment, std::chrono::seconds start_timeout);

class Judge {
 public:
  // `begin`: of the ranks.
  Judge(JudgeOptions options, TimePoint begin);

  // Empty: the run goes on. A failure comes once its cause had time to show: 1 s after the first sign of trouble (5 s
  // while a rank has closed its connection but not ended, 12 s while nothing is heard of a rank's host), or when no
  // rank runs any more. A silent rank has the communication timeout and 3 s. To be called several times a second: after
  // a longer pause it was this process that was stopped, and nobody counts as silent for it.
  std::optional<Outcome> judge(const RunView& view, TimePoint now);

 private:
  std::vector<RankFacts> facts_of(const RunView& view, TimePoint now) const;
  void add_words(std::vector<RankFacts>& ranks) const;
  std::optional<record::Failure> failure_in(const RunView& view, TimePoint now);
  std::optional<record::Failure> never_joined(std::vector<RankFacts>& ranks, TimePoint now) const;
  std::optional<record::Failure> left_early(const RunView& view, const std::vector<RankFacts>& ranks, TimePoint now);

  const JudgeOptions options_;
  const TimePoint begin_;
  TimePoint woke_, last_look_;
  std::optional<TimePoint> all_joined_, trouble_;
  std::vector<std::optional<bool>> work_ended_;  // what was answered
};

}  // namespace mlbench::supervise
