#pragma once

// The ranks of one metric as one series.

#include <cstdint>
#include <string_view>
#include <vector>

#include "mlbench/store/series.h"

namespace mlbench::store {

enum class Merge { kMean, kSum };

// Rates and counts (samples_per_s, bytes) and what ranks use (cpu_cores, memory_bytes, network) add up over ranks;
// everything else is a mean.
Merge merge_of(std::string_view metric);
std::string_view name_of(Merge merge);  // "mean", "sum"

struct MergedRow {
  int64_t step = 0, time_us = 0;
  double value = 0;   // NaN: none
  int64_t count = 0;  // points of the first rank that the row stands for
};

// At the steps of the first rank. A bucket stands for the points up to its last step, so each rank gives its first one
// that reaches the step. A mean is of the ranks that have a number there; a sum that lacks a rank is none.
std::vector<MergedRow> merged(const std::vector<std::vector<Bucket>>& ranks, Merge merge);

}  // namespace mlbench::store
