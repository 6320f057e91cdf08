#pragma once

// Compares two results of `mlbench bench collectives`, size by size, and says whether they differ beyond noise.
//
// Each result consists of starts: a start is one run of the benchmark, in processes of its own (--repeat N makes N).
// Rows of the same operation, type, reduction, root, size and form are compared by the ratio of their geometric means
// over the starts. Below 1, the first result is faster. A start counts with the median of its iterations; where it has
// several cycles (-N), with the median of theirs.
//
// A ratio is a difference when its interval (study/statistics.h) leaves out 1, which needs two starts of each result.
// What changes from one start to the next (where memory, threads and connections lie) shows neither in the iterations
// nor in the cycles of a single start. Of 20 rows without a difference, about one is taken for a difference.

#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/report/collectives/result.h"
#include "mlbench/report/study/statistics.h"

namespace mlbench::report {

enum class CollectiveVerdict { kFaster, kSlower, kNoDifference, kUnknown };

struct CollectiveComparison {
  record::CollectiveRow row;  // operation, type, ...; without figures
  bool in_place = false;
  double median_us = 0, other_us = 0;     // medians over the starts of either result
  std::optional<RatioEstimate> estimate;  // this result's geometric mean over the other's
  CollectiveVerdict verdict = CollectiveVerdict::kUnknown;
  std::string why_unknown;  // "needs starts", "wrong results", ...; "" where there is a verdict
};

struct CollectivesComparison {
  std::string name, other;  // names of the first starts
  size_t starts = 0, other_starts = 0;
  std::string not_comparable;              // why the results cannot be compared; "" where they can
  std::vector<CollectiveComparison> rows;  // in the order of the first result
  std::optional<double> ratio;             // geometric mean of the rows' ratios
  int64_t faster = 0, slower = 0, same = 0, unknown = 0;
  std::vector<std::string> notes;  // what differs between the two, what is missing in one
};

// Compares two results, each given as its starts. Precondition: each has at least one start. Where the starts of one
// result were not measured alike, `not_comparable` says so and there are no rows.
CollectivesComparison compare_collectives(const std::vector<CollectivesResult>& starts,
                                          const std::vector<CollectivesResult>& others);

std::string comparison_text(const CollectivesComparison& comparison);
Json to_json(const CollectivesComparison& comparison);

}  // namespace mlbench::report
