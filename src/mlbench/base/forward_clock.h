#pragma once

#include "mlbench/base/clock.h"

namespace mlbench {

// A wall clock that never goes back: the wall time at its construction plus the monotonic time since. Its times stamp
// samples of which a reader asks for the newer ones. Threads may share a ForwardClock. `clock` must outlive it.
class ForwardClock {
 public:
  explicit ForwardClock(const Clock& clock) : clock_(clock), start_(clock.now()), wall_start_(clock.wall_now()) {}
  std::chrono::system_clock::time_point now() const {
    return wall_start_ + std::chrono::duration_cast<std::chrono::system_clock::duration>(clock_.now() - start_);
  }

 private:
  const Clock& clock_;
  const TimePoint start_;
  const std::chrono::system_clock::time_point wall_start_;
};

}  // namespace mlbench
