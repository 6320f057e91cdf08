#pragma once

// How runs scale over their numbers of workers. Figures that do not exist are empty, never zero.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/record/record.h"
#include "mlbench/report/figures.h"

namespace mlbench::report {

struct Scaling {
  double speed_up = 0;    // how many times faster than the baseline
  double efficiency = 0;  // speed-up over the ratio of worker counts; 1 is linear
};

// `seconds` for the same work with `workers`, against the baseline's.
Scaling scaling_of_time(double baseline_s, int64_t baseline_workers, double seconds, int64_t workers);
// The same for a rate (samples per second).
Scaling scaling_of_rate(double baseline_rate, int64_t baseline_workers, double rate, int64_t workers);

struct ScaledRun {
  RunFigures figures;
  std::string baseline;            // names of the runs that it is compared with: "r-1" or "r-1, r-1.2"
  int64_t baseline_workers = 0;    // 0: there is no baseline
  std::string no_ratio;            // why there is none; "" where there is one
  std::optional<Scaling> to_goal;  // both this run and the baseline reached the goal
  std::optional<Scaling> rate;
};
struct ScaledRuns {
  std::vector<ScaledRun> runs;  // in the order given
  // The baseline of all runs that have one; 0 and "" where they have none, or several.
  int64_t baseline_workers = 0;
  std::string baseline_names;
  std::vector<std::string> notes;
};

// Compares runs with those of the smallest worker count that they make a speed-up with (comparison.h). Where that was
// repeated, it is the median of its repeats (one that missed the goal leaves time to goal without a baseline: times of
// the lucky runs alone would be biased).
ScaledRuns scale_runs(const std::vector<record::Record>& records);

}  // namespace mlbench::report
