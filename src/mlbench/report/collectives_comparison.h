#pragma once

// Two results of `mlbench bench collectives`, size by size, with a verdict beyond noise.
//
// Rows of the same operation, type, reduction, root, size and form are compared by the ratio of their medians, below 1
// being faster than the other result. How far the ratio may be off:
//
//   cycles      where both have the row at least three times (-N 3, or a size given twice): the 95 % interval of the
//               ratio of the geometric means of the medians (statistics.h), which holds what differs from one time to
//               the next;
//   iterations  else: from the least to the greatest ratio of the two medians' intervals (record::TimeSummary), of
//               97.5 % each, so of at least 95 % together. The iterations of one time tell nothing of the next.
//
// A ratio is a difference when its interval leaves out 1. Of 20 rows without a difference, one may pass for one.

#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/report/collectives_result.h"
#include "mlbench/report/statistics.h"

namespace mlbench::report {

enum class CollectiveVerdict { kFaster, kSlower, kNoDifference, kUnknown };

struct CollectiveComparison {
  record::CollectiveRow row;  // whose operation, type, ... are meant; without figures
  bool in_place = false;
  double median_us = 0, other_us = 0;
  std::optional<double> ratio;       // median / other
  std::optional<Interval> interval;  // none where there are too few iterations
  bool of_cycles = false;            // what the interval is made of
  CollectiveVerdict verdict = CollectiveVerdict::kUnknown;
  std::string why_unknown;  // "too few iterations", "wrong results"
};

struct CollectivesComparison {
  std::string name, other;                 // of the results
  std::string not_comparable;              // why there are no rows; "" where there may be some
  std::vector<CollectiveComparison> rows;  // in the order of the first result
  std::optional<double> ratio;             // geometric mean over the rows that have one
  int64_t faster = 0, slower = 0, same = 0, unknown = 0;
  std::vector<std::string> notes;  // what differs between the two, what is missing in one
};

CollectivesComparison compare_collectives(const CollectivesResult& result, const CollectivesResult& other);

std::string comparison_text(const CollectivesComparison& comparison);
Json to_json(const CollectivesComparison& comparison);

}  // namespace mlbench::report
