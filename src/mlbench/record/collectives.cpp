#include "mlbench/record/collectives.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "mlbench/base/errors.h"
#include "mlbench/record/collectives_fields.h"

namespace mlbench::record {

namespace {

// What lies beyond each end of the median's interval.
constexpr double kTail = 0.0125;
constexpr double kTailDeviations = 2.2415;  // for the normal distribution

}  // namespace

double percentile(std::span<const double> ascending, double share) {
  MLBENCH_CHECK(!ascending.empty(), "a percentile of no values");
  const double place = share * static_cast<double>(ascending.size() - 1);
  const auto below = static_cast<size_t>(place);
  if (below + 1 >= ascending.size()) return ascending.back();
  return ascending[below] + (place - static_cast<double>(below)) * (ascending[below + 1] - ascending[below]);
}

std::optional<std::pair<size_t, size_t>> median_interval(size_t count) {
  // The number of values below the median, of `count`, is binomial.
  std::optional<size_t> lowest;
  const auto n = static_cast<double>(count);
  if (count > 1000) {
    lowest = static_cast<size_t>(n / 2 - kTailDeviations * std::sqrt(n) / 2 - 1.5);
  } else {
    double probability = std::pow(0.5, n), sum = probability;
    for (size_t below = 0; sum <= kTail && 2 * below < count; ++below) {
      lowest = below;
      probability *= (n - static_cast<double>(below)) / static_cast<double>(below + 1);
      sum += probability;
    }
  }
  if (!lowest) return std::nullopt;
  return std::pair(*lowest, count - 1 - *lowest);
}

TimeSummary summarise(std::vector<double> times_us) {
  MLBENCH_CHECK(!times_us.empty(), "a summary of no times");
  std::sort(times_us.begin(), times_us.end());
  const auto n = static_cast<double>(times_us.size());
  TimeSummary summary;
  summary.count = std::ssize(times_us);
  summary.min_us = times_us.front();
  summary.max_us = times_us.back();
  summary.p50_us = percentile(times_us, 0.5);
  summary.p95_us = percentile(times_us, 0.95);
  summary.p99_us = percentile(times_us, 0.99);
  summary.mean_us = std::accumulate(times_us.begin(), times_us.end(), 0.0) / n;
  double squares = 0;
  for (const double time : times_us) squares += (time - summary.mean_us) * (time - summary.mean_us);
  if (times_us.size() > 1) summary.stdev_us = std::sqrt(squares / (n - 1));
  if (summary.mean_us > 0) summary.cv = summary.stdev_us / summary.mean_us;
  if (const auto interval = median_interval(times_us.size())) {
    summary.p50_low_us = times_us[interval->first];
    summary.p50_high_us = times_us[interval->second];
  }
  return summary;
}

Json to_json(const CollectiveRow& row) { return written(row); }
Json to_json(const PairMatrix& pairs) { return written(pairs); }
CollectiveRow collective_row_from_json(const Json& json, const std::string& where) {
  return read_part<CollectiveRow>(json, where);
}
PairMatrix pair_matrix_from_json(const Json& json, const std::string& where) {
  return read_part<PairMatrix>(json, where);
}

int64_t fewest_iterations(const CollectiveRow& row) {
  int64_t iterations = 0;
  for (const auto* form : {&row.out_of_place, &row.in_place}) {
    if (!*form || !(*form)->iterations) continue;
    const int64_t count = (*form)->iterations->count;
    iterations = iterations == 0 ? count : std::min(iterations, count);
  }
  return iterations;
}

std::string nccl_type_of(const CollectiveRow& row) {
  return row.dtype.empty() ? "none" : std::string(spec::nccl_name_of(spec::dtype_named(row.dtype)));
}

void check_names(const CollectiveRow& row) {
  spec::collective_named(row.operation);
  if (!row.reduction.empty()) spec::reduction_named(row.reduction);
  if (!row.dtype.empty()) spec::dtype_named(row.dtype);
}

void check_square(const PairMatrix& pairs) {
  for (const auto* matrix : {&pairs.latency_us, &pairs.bandwidth}) {
    const bool square = matrix->size() == pairs.hosts.size() &&
                        std::ranges::all_of(*matrix, [&](const auto& row) { return row.size() == matrix->size(); });
    if (!square) throw UserError("'latency' and 'bandwidth' are not as large as 'hosts' says");
  }
}

}  // namespace mlbench::record
