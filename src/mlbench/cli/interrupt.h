#pragma once

// Ctrl-C (and SIGTERM) while a command follows runs: counted, not obeyed.

#include <signal.h>

namespace mlbench::cli {

class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();  // the handlers from before
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  static int count();  // since the first guard of the process

 private:
  struct sigaction previous_int_, previous_term_;
};

}  // namespace mlbench::cli
