#pragma once

// Ctrl-C (and SIGTERM) while a command follows runs: counted, not obeyed.

namespace mlbench::cli {

class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();           // the handlers from before
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  static int count();          // since the first guard of the process
};

}  // namespace mlbench::cli
