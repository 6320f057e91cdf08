#pragma once

// What a run record says, as figures, and how runs compare. Figures that do not exist are empty, never zero.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::report {

// A number inside a record, e.g. number(record, "/clocks/train_s"); empty when absent, null or no number.
std::optional<double> number(const Json& record, const char* pointer);
// A text inside a record; "" when absent, null or no text.
std::string text(const Json& record, const char* pointer);

// Whether more of the goal's metric is better, as the record says; of records from before it did, as is known of the
// metric. Empty when neither tells.
std::optional<bool> goal_higher_is_better(const Json& record);

struct Scaling {
  double speed_up = 0;    // how many times faster than the baseline
  double efficiency = 0;  // speed-up over the ratio of worker counts; 1 is linear
};

// `seconds` for the same work with `workers`, against the baseline's.
Scaling scaling_of_time(double baseline_s, int64_t baseline_workers, double seconds, int64_t workers);
// The same for a rate (samples per second).
Scaling scaling_of_rate(double baseline_rate, int64_t baseline_workers, double rate, int64_t workers);

// What a table shows of one run.
struct RunFigures {
  std::string name, state;
  int64_t workers = 0, threads_per_worker = 0;
  bool has_goal = true;                  // false: a throughput run
  std::optional<double> time_to_goal_s;  // train clock; only when the goal was reached
  std::optional<double> train_s, train_legacy_s, wall_s;
  std::optional<double> samples_per_s;
  std::optional<double> communication_share;  // of the train clock: steps_s.agg / clocks.train_s
  std::string evaluation;                     // "Prec@1 84.21", the goal's metric at the last evaluation
  std::vector<std::string> labels;            // what a reader must know before comparing
};
RunFigures figures_of(const Json& record);

struct ComparedRun {
  RunFigures figures;
  std::optional<Scaling> to_goal;  // both this run and the baseline reached the goal
  std::optional<Scaling> rate;
};
struct Comparison {
  std::vector<ComparedRun> runs;  // in the order given
  int64_t baseline_workers = 0;   // the smallest worker count; 0: nothing to compare with
  std::string baseline_names;     // "r-1" or "r-1, r-1.2"
};

// Compares runs that differ in worker count and repeat only. The baseline is the smallest worker count; where it was
// repeated, the median of its repeats (a repeat that missed the goal leaves time to goal without a baseline: times of
// the lucky runs alone would be biased).
Comparison compare(const std::vector<Json>& records);

}  // namespace mlbench::report
