#pragma once

// Remembers what was seen of the ranks and their engine, and asks the table (table.h) whether the run goes on, or how
// it ended. Observations and the time are passed in.

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
  std::optional<record::Failure> failure;  // set exactly where `state` is kFailed
  bool lost_place = false;                 // as Verdict::lost_place
};
Outcome failed(std::string kind, std::string message, int64_t rank = -1);
Outcome ended_on_request(EndRequest request);
// The exit code of `mlbench supervise` for a run that ended in `state`.
ExitCode exit_code_of(record::RunState state);

// What can be seen of a rank at one moment.
struct RankView {
  net::RankStatus status;    // its connection and messages; has the host even before the rank joined
  char process_state = '?';  // as in /proc/PID/stat; '?': not on this host, or gone
};

struct RunView {
  std::vector<RankView> ranks;
  bool running = true;  // whether any rank runs
};

struct JudgeOptions {
  bool own_worker = true;  // false: programs of others, which have no rendezvous and no heartbeat
  double comm_timeout_s = 30;
  std::chrono::seconds start_timeout{60};     // time for all ranks to join the rendezvous
  std::chrono::milliseconds verdict_time{0};  // exec::RankGroup::verdict_time()
  // Returns whether a rank that ended with code 0 had finished its work; called at most once per rank.
  std::function<bool(size_t rank)> work_ended;
  // Returns what a rank left behind about its failure; called once something is wrong.
  std::function<WordsLeft(size_t rank)> words_left = nullptr;
};
// The options for the ranks of a segment, which read the run's folder. Precondition: `run` outlives them.
JudgeOptions judge_options(const spec::RunSpec& run, int64_t segment, std::chrono::seconds start_timeout);

class Judge {
 public:
  // `begin` is the time at which the ranks were started.
  Judge(JudgeOptions options, TimePoint begin);
  Judge(const Judge&) = delete;
  Judge& operator=(const Judge&) = delete;

  // Takes an observation. Must be called once for each, in their order. A repeated word of the engine counts from its
  // first time.
  void see(const exec::Observation& seen, TimePoint now);

  // Returns how the run ended, by the row of the table that is due or because no rank runs any more; empty: the run
  // goes on. Must be called several times a second: after a pause of more than 3 s this process itself is taken to have
  // been stopped, and no rank counts as silent for it.
  std::optional<Outcome> judge(const RunView& view, TimePoint now);

 private:
  void look_at(const RunView& view, TimePoint now);
  RankFacts& facts_of(int rank);
  void add_words(std::vector<RankFacts>& ranks) const;
  bool had_ended_work(size_t rank);

  const JudgeOptions options_;
  Scene scene_;  // what was known at the last look
  TimePoint woke_, last_look_;
  std::optional<TimePoint> all_joined_;
  int64_t seen_ = 0;                             // number of observations
  std::vector<std::optional<bool>> work_ended_;  // the answers of `options_.work_ended`
};

}  // namespace mlbench::supervise
