#pragma once

// Where a rank stops when its run is stopped: after the same step as all other ranks, so that they write a checkpoint
// there together. Ranks agree without a collective, over the rendezvous (supervise/orderly_stop.h):
//   1. The rank is asked. From then on it does not begin a step beyond the one that it is in. It answers how many steps
//      it will have done then.
//   2. The rank is told how many steps all ranks do: the most that any of them answered. It goes on until then.
// No rank has passed that step when it is told. So no operation of a step waits for a rank that has stopped before it.

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>

namespace mlbench::train {

// Thread-safe: the training thread calls reached() and leave(), another one the rest.
class StopPoint {
 public:
  // Whether the run stops after `step` steps; must be called before each step. Once the rank was asked, waits for
  // set() instead of beginning a step beyond the answer.
  bool reached(int64_t step);
  // The training is over: nobody is answered any more.
  void leave();

  // Whether the rank trains, and so can stop after a step.
  bool stands() const;
  // Asks the rank to stop; asking again changes nothing.
  void ask();
  // The answer to ask(); empty before that, and while the rank does not train.
  std::optional<int64_t> answer() const;
  // All ranks stop after `step` steps. The first call counts.
  void set(int64_t step);

 private:
  mutable std::mutex mutex_;
  std::condition_variable told_;
  std::optional<int64_t> steps_begun_;  // empty: the rank does not train
  std::optional<int64_t> answer_, stop_at_;
};

}  // namespace mlbench::train
