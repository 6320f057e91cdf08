#include "mlbench/store/merge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace mlbench::store {

Merge merge_of(std::string_view metric) {
  constexpr std::array<std::string_view, 6> kSummed = {
      "samples_per_s", "bytes", "cpu_cores", "memory_bytes", "network_in_bytes_per_s", "network_out_bytes_per_s"};
  return std::ranges::find(kSummed, metric) != kSummed.end() ? Merge::kSum : Merge::kMean;
}

std::string_view name_of(Merge merge) { return merge == Merge::kSum ? "sum" : "mean"; }

std::vector<MergedRow> merged(const std::vector<std::vector<Bucket>>& ranks, Merge merge) {
  std::vector<MergedRow> rows;
  if (ranks.empty()) return rows;
  std::vector<size_t> at(ranks.size(), 0);
  for (const Bucket& first : ranks.front()) {
    double sum = 0;
    size_t count = 0;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      const std::vector<Bucket>& buckets = ranks[rank];
      while (at[rank] < buckets.size() && buckets[at[rank]].last_step < first.last_step) ++at[rank];
      if (at[rank] == buckets.size()) continue;
      const double value = buckets[at[rank]].mean();
      if (!std::isfinite(value)) continue;
      sum += value;
      ++count;
    }
    // A sum without all ranks would look like a slow moment.
    const bool none = count == 0 || (merge == Merge::kSum && count < ranks.size());
    const double value = merge == Merge::kSum ? sum : sum / static_cast<double>(count);
    rows.push_back(
        {first.last_step, first.last_time_us, none ? std::numeric_limits<double>::quiet_NaN() : value, first.count});
  }
  return rows;
}

}  // namespace mlbench::store
