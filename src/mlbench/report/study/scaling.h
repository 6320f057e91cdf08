#pragma once

// How runs scale over their numbers of workers. A figure that does not exist is empty, never zero.

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

// The scaling of a time: `workers` take `seconds` for the work for which `baseline_workers` take `baseline_s`.
// Precondition: both worker counts are positive.
Scaling scaling_of_time(double baseline_s, int64_t baseline_workers, double seconds, int64_t workers);
// The scaling of a rate (samples per second), with the same precondition.
Scaling scaling_of_rate(double baseline_rate, int64_t baseline_workers, double rate, int64_t workers);

struct ScaledRun {
  RunFigures figures;
  std::string baseline;            // names of the baseline's runs: "r-1" or "r-1, r-1.2"
  int64_t baseline_workers = 0;    // 0: there is no baseline
  std::string no_ratio;            // why there is none; "" where there is one
  std::optional<Scaling> to_goal;  // only where both this run and the baseline reached the goal
  std::optional<Scaling> rate;
};
struct ScaledRuns {
  std::vector<ScaledRun> runs;  // in the order given
  // The baseline that all runs with a baseline share; 0 and "" where there is none, or several.
  int64_t baseline_workers = 0;
  std::string baseline_names;
  std::vector<std::string> notes;
};

// Compares each run with the runs of the smallest worker count among those with which it makes a speed-up
// (comparison.h). Of repeats of that baseline, the median counts. Where one of them missed the goal, time to goal has
// no baseline: the times of the lucky runs alone would be biased.
ScaledRuns scale_runs(const std::vector<record::Record>& records);

}  // namespace mlbench::report
