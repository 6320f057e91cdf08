#pragma once

// Shows live progress: one line that is redrawn on a terminal, plain lines now and then elsewhere.

#include <chrono>
#include <cstdio>
#include <string>

#include "mlbench/report/progress.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::cli {

enum class Phase { kQueued, kWaiting, kStarted };

// "r-2  epoch 1.25 of 40  step 375 of 12,000  loss 0.432  12,345 samples/s  Prec@1 84.20 (goal 85)  0:41". The rate is
// that of all workers: rank 0's times their number, since synchronous steps give each worker as many samples.
// `waits` are the supervisor's words for kWaiting, "waits for the cores: another run holds them".
std::string progress_line(const spec::RunSpec& run, const report::Progress& progress, Phase phase, double elapsed_s,
                          const std::string& waits = "");

class ProgressView {
 public:
  // `terminal` says that `out` is a terminal. Elsewhere a line is written for each evaluation, for each change of
  // phase, and after each `interval`.
  ProgressView(std::FILE* out, bool terminal, std::chrono::seconds interval = std::chrono::seconds(10));
  ~ProgressView() { clear(); }
  void show(const spec::RunSpec& run, const report::Progress& progress, Phase phase, double elapsed_s,
            const std::string& waits = "");
  // Writes a line that stays, above the redrawn one.
  void note(const std::string& text);
  void clear();

 private:
  std::FILE* out_;
  bool terminal_;
  std::chrono::seconds interval_;
  bool drawn_ = false;
  double last_line_s_ = -1;
  std::string last_stage_;
};

}  // namespace mlbench::cli
