#pragma once

// `mlbench compare`: repeated runs side by side, and whether their differences are real. A difference is real when the
// 95 % interval of the ratio (statistics.h) leaves out 1, which needs two repeats of each.

#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/report/statistics.h"

namespace mlbench::report {

struct RepeatedRun {
  std::string name;
  std::vector<Json> records;  // its repeats, at least one
};

struct Sample {
  std::vector<double> values;        // of the repeats that have one
  std::optional<double> mean;        // geometric, as that of the ratios
  std::optional<Interval> interval;  // its 95 %
};

struct RepeatedFigures {
  std::string name;
  int64_t workers = 0;
  size_t runs = 0, reached = 0;
  Sample time_to_goal_s;  // empty unless every repeat reached the goal
  Sample samples_per_s, value_after, communication_per_compute;
  std::vector<std::string> labels;
  // Against the first run; above 1 is more time, more throughput.
  std::optional<RatioEstimate> time_ratio, rate_ratio;
};

struct Significance {
  std::vector<RepeatedFigures> runs;
  std::string metric;             // of value_after; "" where there is none
  std::optional<double> after_s;  // as asked, or the latest moment at which every run has a value
  std::vector<std::string> notes;
};

// At least one run. Times to different goals (or of different tasks) are shown, but get no ratio.
Significance significance_of(const std::vector<RepeatedRun>& runs, std::optional<double> after_s);

std::string significance_text(const Significance& significance);
Json to_json(const Significance& significance);

}  // namespace mlbench::report
