#pragma once

// `mlbench compare`: repeated runs side by side, and whether their differences are real. A difference is real when the
// interval of the ratio (statistics.h) leaves out 1, which needs two repeats of each. The intervals of one run's ratios
// are wide enough that at least 95 % of such rows hold every true ratio. What has a ratio is said in comparison.h.

#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/record/record.h"
#include "mlbench/report/study/statistics.h"

namespace mlbench::report {

struct RepeatedRun {
  std::string name;
  std::vector<record::Record> records;  // its repeats, at least one
};

struct Sample {
  std::vector<double> values;        // of the repeats that have one
  std::optional<double> mean;        // geometric, as that of the ratios
  std::optional<Interval> interval;  // its 95 %
};

struct RepeatedFigures {
  std::string name;
  std::vector<std::string> repeats;  // their names
  int64_t workers = 0;
  size_t runs = 0, reached = 0;
  bool shared_host = false;  // then it has no times, rates or ratios
  Sample time_to_goal_s;     // empty unless every repeat reached the goal
  Sample samples_per_s, communication_per_compute;
  Sample value_after;     // empty unless every repeat has one
  size_t ended = 0;       // repeats that had ended before that moment: their last value is taken
  size_t not_finite = 0;  // repeats whose value at that moment was NaN or infinite, which is none
  std::vector<std::string> labels;
  // Against the first run; above 1 is more time, more throughput, a higher value.
  std::vector<std::string> differs_in;  // names of keys
  std::string no_ratio;                 // why there is none; "" where nothing forbids one
  std::optional<RatioEstimate> time_ratio, rate_ratio, value_ratio;
};

struct Significance {
  std::vector<RepeatedFigures> runs;
  std::string metric, split;      // of value_after: the first run's; "" where there is none
  std::optional<double> after_s;  // as asked, or the latest moment at which every run has a value
  std::vector<std::string> notes;
};

struct SignificanceOptions {
  std::optional<double> after_s = {};
  std::vector<std::string> vary = {};  // keys that may differ together
};

// At least one run. Repeats that differ in a key become runs of their own.
Significance significance_of(const std::vector<RepeatedRun>& runs, const SignificanceOptions& options);

// "0.50 [0.49, 0.51]"; "-" without.
std::string ratio_words(const std::optional<RatioEstimate>& estimate);
// Of one that differs() says does not: that, and what would have been shown.
std::string no_difference_words(const RatioEstimate& estimate);

std::string significance_text(const Significance& significance);
Json to_json(const Significance& significance);

}  // namespace mlbench::report
