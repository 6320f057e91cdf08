#pragma once

// Remembers what was seen of the ranks and of their engine, and asks the table (table.h) what it means for the run: how
// it ended, or that it goes on. What is seen is handed in, and so is the time.

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/process.h"
#include "mlbench/exec/observation.h"
#include "mlbench/net/kv/kv.h"
#include "mlbench/record/build_record.h"
#include "mlbench/supervise/control.h"
#include "mlbench/supervise/table.h"
#include "mlbench/supervise/traces.h"

namespace mlbench::supervise {

// How a segment ended.
struct Outcome {
  record::RunState state = record::RunState::kFinished;
  std::optional<record::Failure> failure;  // with the state kFailed, and only then
  bool lost_place = false;                 // of Verdict
};
Outcome failed(std::string kind, std::string message, int64_t rank = -1);
Outcome ended_on_request(EndRequest request);
// Of `mlbench supervise`.
ExitCode exit_code_of(record::RunState state);

// What is to be seen of a rank at one moment.
struct RankView {
  net::RankStatus status;    // its connection and its words; with the host, also where it has not joined
  char process_state = '?';  // as in /proc/PID/stat; '?': not on this host, or gone
};

struct RunView {
  std::vector<RankView> ranks;
  bool running = true;  // any rank
};

struct JudgeOptions {
  bool own_worker = true;  // else programs of others: no rendezvous, no heartbeat, only how they end can be seen
  double comm_timeout_s = 30;
  std::chrono::seconds start_timeout{60};     // until all ranks joined the rendezvous
  std::chrono::milliseconds verdict_time{0};  // of exec::RankGroup
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
  Judge(const Judge&) = delete;
  Judge& operator=(const Judge&) = delete;

  // What was observed of the ranks, each once and in its order. A word of the engine counts where it says that for the
  // first time.
  void see(const exec::Observation& seen, TimePoint now);

  // Empty: the run goes on; else how it ended, for the row of the table that is due, or as no rank runs any more. To be
  // called several times a second: after a longer pause it was this process that was stopped, and nobody counts as
  // silent for it.
  std::optional<Outcome> judge(const RunView& view, TimePoint now);

 private:
  void look_at(const RunView& view, TimePoint now);
  RankFacts& facts_of(int rank);
  void add_words(std::vector<RankFacts>& ranks) const;
  bool had_ended_work(size_t rank);

  const JudgeOptions options_;
  Scene scene_;  // as it last was
  TimePoint woke_, last_look_;
  std::optional<TimePoint> all_joined_;
  int64_t seen_ = 0;                             // observations
  std::vector<std::optional<bool>> work_ended_;  // what was answered
};

}  // namespace mlbench::supervise
