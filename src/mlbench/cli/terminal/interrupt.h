#pragma once

// Ctrl-C (and SIGTERM) while a command follows runs: counted, not obeyed. A verb that uses this says so
// (Program::reads_signals) and makes the guard before anything that must not end half way.

#include <signal.h>

namespace mlbench::cli {

class InterruptGuard {
 public:
  InterruptGuard();   // what came since the program's first instruction counts, too
  ~InterruptGuard();  // the handlers from before
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  static int count();  // since the first guard of the process

 private:
  struct sigaction previous_int_, previous_term_;
};

}  // namespace mlbench::cli
