#pragma once

// Notes when this process did not run: it was stopped by a signal or a debugger, or it had no processor. Only the
// process itself can tell that afterwards, since whoever watches it may have been stopped, too.

#include <chrono>

#include "mlbench/base/clock.h"

namespace mlbench::worker {

class Pauses {
 public:
  // `begin` is the time of the first round.
  explicit Pauses(TimePoint begin) : last_round_(begin) {}

  // Notes a round. Precondition: a thread that is not held up by work calls this function four times a second.
  void round(TimePoint now);
  // The length in seconds of a pause that lasts until now or ended within the last 10 s, where it is longer than 2 s;
  // else 0.
  double recent_s(TimePoint now) const;

 private:
  TimePoint last_round_;
  Nanoseconds pause_{0};  // the last one
  TimePoint pause_end_{};
};

}  // namespace mlbench::worker
