#pragma once

// Live progress on standard error: one line redrawn on a terminal, plain lines now and then elsewhere.

#include <chrono>
#include <cstdio>
#include <string>

#include "mlbench/report/progress.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::cli {

enum class Phase { kQueued, kWaiting, kStarted };

// "r-2  epoch 1.25 of 40  loss 0.432  12,345 samples/s  Prec@1 84.20 (goal 85)  0:41". The rate is that of all
// workers: synchronous steps give each the same number of samples, so it is rank 0's times their number.
std::string progress_line(const spec::RunSpec& run, const report::Progress& progress, Phase phase, double elapsed_s);

class ProgressView {
 public:
  // `terminal`: `out` is one. Otherwise a line per evaluation, per change of phase, and every `interval`.
  ProgressView(std::FILE* out, bool terminal, std::chrono::seconds interval = std::chrono::seconds(10));
  ~ProgressView() { clear(); }
  void show(const spec::RunSpec& run, const report::Progress& progress, Phase phase, double elapsed_s);
  // A line that stays, above the redrawn one.
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
