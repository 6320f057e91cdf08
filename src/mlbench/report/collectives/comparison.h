#pragma once

// Two results of `mlbench bench collectives`, size by size, with a verdict beyond noise.
//
// What is compared are starts: a start is one run of the benchmark, in processes of its own (--repeat N makes N). Rows
// of the same operation, type, reduction, root, size and form are compared by the ratio of the geometric means over the
// starts, below 1 being faster than the other result. A start counts with the median of its iterations, of several
// cycles (-N) with the median of these.
//
// A ratio is a difference when its interval (study/statistics.h) leaves out 1, which needs two starts of each: what
// differs from one start to the next (where memory, threads and connections came to lie) is neither in the iterations
// nor in the cycles of one. Of 20 rows without a difference, one may pass for one.

#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/report/collectives/result.h"
#include "mlbench/report/study/statistics.h"

namespace mlbench::report {

enum class CollectiveVerdict { kFaster, kSlower, kNoDifference, kUnknown };

struct CollectiveComparison {
  record::CollectiveRow row;  // whose operation, type, ... are meant; without figures
  bool in_place = false;
  double median_us = 0, other_us = 0;     // of the starts
  std::optional<RatioEstimate> estimate;  // of the starts: its ratio is median / other
  CollectiveVerdict verdict = CollectiveVerdict::kUnknown;
  std::string why_unknown;  // "needs starts", "wrong results"
};

struct CollectivesComparison {
  std::string name, other;  // of the first starts
  size_t starts = 0, other_starts = 0;
  std::string not_comparable;              // why there are no rows; "" where there may be some
  std::vector<CollectiveComparison> rows;  // in the order of the first result
  std::optional<double> ratio;             // geometric mean over the rows that have one
  int64_t faster = 0, slower = 0, same = 0, unknown = 0;
  std::vector<std::string> notes;  // what differs between the two, what is missing in one
};

// Each at least one start; those of one side were measured alike, else nothing is compared.
CollectivesComparison compare_collectives(const std::vector<CollectivesResult>& starts,
                                          const std::vector<CollectivesResult>& others);

std::string comparison_text(const CollectivesComparison& comparison);
Json to_json(const CollectivesComparison& comparison);

}  // namespace mlbench::report
