#pragma once

// Merges the series of one metric from all ranks into one series.

#include <cstdint>
#include <string_view>
#include <vector>

#include "mlbench/store/series.h"

namespace mlbench::store {

enum class Merge { kMean, kSum };

// Rates and counts (samples_per_s, bytes) and what ranks use (cpu_cores, memory_bytes, network) are summed over ranks;
// every other metric is averaged.
Merge merge_of(std::string_view metric);
std::string_view name_of(Merge merge);  // "mean", "sum"

struct MergedRow {
  int64_t step = 0, time_us = 0;
  double value = 0;   // NaN: there is none
  int64_t count = 0;  // points of the first rank for which the row stands
};

// The rows are at the steps of the first rank. A bucket stands for the points up to its last step, so each rank gives
// its first bucket that reaches the step. A mean is over the ranks that have a number there; a sum without all ranks is
// none.
std::vector<MergedRow> merged(const std::vector<std::vector<Bucket>>& ranks, Merge merge);

}  // namespace mlbench::store
