#pragma once

// Stops ranks that train after one and the same step, where they write a checkpoint together (train/stop_point.h):
//   1. The supervisor asks all ranks to stop. Each answers, in its heartbeats, after how many steps it waits.
//   2. The supervisor tells all ranks the greatest of these numbers.
//   3. The ranks do the steps up to there, write the checkpoint, and end with exit code 0.
// Whoever stops a run does not wait for long: a rank that does not answer, a rank that fails, or ranks that have not
// ended in time end the attempt. What is seen and the time are passed in.

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/base/json.h"
#include "mlbench/exec/observation.h"
#include "mlbench/net/kv/kv.h"

namespace mlbench::supervise {

// How long ranks may take to answer, and to end. Engines leave a run 30 s between SIGTERM and SIGKILL, in which the
// supervisor also ends what is left of the ranks, and writes the record.
inline constexpr std::chrono::seconds kAnswerPatience{3};
inline constexpr std::chrono::seconds kOrderlyPatience{20};

class OrderlyStop {
 public:
  // Whether all ranks train, by their last heartbeats, so that they can be asked.
  static bool possible(const std::vector<net::RankStatus>& ranks);
  // The word that asks them.
  static Json question();

  // `now` is the time at which the ranks were asked.
  explicit OrderlyStop(TimePoint now) : asked_(now) {}

  // Returns the word with the step after which all ranks stop, once, as soon as all have answered.
  std::optional<Json> answer_to(const std::vector<net::RankStatus>& ranks);
  // Takes the end of a rank, of which the rendezvous knows `status`.
  void see(const exec::RankExit& exit, const net::RankStatus& status);
  // Why the ranks are to be ended at once; "" while it is worth while to wait for them.
  std::string given_up(TimePoint now) const;
  // The step after which the ranks stop; empty while it is not known.
  std::optional<int64_t> step() const { return step_; }

 private:
  const TimePoint asked_;
  std::optional<int64_t> step_;
  std::string failed_;  // how a rank ended that did not stop in order; "": there is none
};

}  // namespace mlbench::supervise
