#pragma once

// What tells one series of values from another, from the worker to the chart.

#include <compare>
#include <cstdint>
#include <string>

namespace mlbench::record {

inline constexpr int64_t kAllRanks = -1;

struct SeriesKey {
  std::string split;   // one of spec/split.h, or "": about the run as a whole (lr, times), or a script's own
  std::string metric;  // "loss", "Prec@1", "samples_per_s"
  int64_t rank = 0;    // the rank that measured it; kAllRanks: one value over all ranks
  auto operator<=>(const SeriesKey&) const = default;  // NOLINT(modernize-use-nullptr): taken for a comparison with 0
};

}  // namespace mlbench::record
