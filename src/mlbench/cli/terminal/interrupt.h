#pragma once

// Counts Ctrl-C (and SIGTERM) while a command follows runs, instead of ending the program. A verb that uses the guard
// must set Program::reads_signals, and make the guard before anything that must not end half way.
//
// Signals within half a second are one request: timeout and job managers signal a process and its group.

#include <signal.h>

namespace mlbench::cli {

class InterruptGuard {
 public:
  InterruptGuard();   // signals that came since the program's first instruction count, too
  ~InterruptGuard();  // sets the handlers that were there before
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  static int count();  // requests since the first guard of the process

 private:
  struct sigaction previous_int_, previous_term_;
};

}  // namespace mlbench::cli
