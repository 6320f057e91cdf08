#pragma once

#include "mlbench/base/clock.h"

namespace mlbench {

// Wall times that never go back: the wall clock at the making, and the monotonic clock since. For samples that a reader
// asks the newer ones of. Threads may share one; the clock outlives it.
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
