#include "mlbench/report/study/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "mlbench/base/errors.h"

namespace mlbench::report {

namespace {

// The continued fraction of the incomplete beta function, by Lentz's method.
double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300;
  const auto off_zero = [](double value) { return std::abs(value) < kTiny ? kTiny : value; };
  double c = 1, d = 1 / off_zero(1 - (a + b) * x / (a + 1)), value = d;
  for (int m = 1; m < 10'000; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    d = 1 / off_zero(1 + even * d);
    c = off_zero(1 + even / c);
    value *= d * c;
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / off_zero(1 + odd * d);
    c = off_zero(1 + odd / c);
    value *= d * c;
    if (std::abs(d * c - 1) < 1e-15) break;
  }
  return value;
}

// I_x(a, b), the regularised incomplete beta function.
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double student_t_probability(double t, double degrees) {
  const double tail = incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t)) / 2;
  return t > 0 ? 1 - tail : tail;
}

struct Logs {
  double mean = 0;
  double variance_of_mean = 0;  // 0 for fewer than two values
  size_t count = 0;
};

std::optional<Logs> logs_of(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  if (!std::all_of(values.begin(), values.end(), [](double v) { return v > 0 && std::isfinite(v); })) {
    return std::nullopt;
  }
  Logs logs;
  logs.count = values.size();
  const auto n = static_cast<double>(values.size());
  if (std::ranges::count(values, values.front()) == std::ssize(values)) {  // a sum's rounding is no spread
    logs.mean = std::log(values.front());
    return logs;
  }
  for (const double value : values) logs.mean += std::log(value) / n;
  for (const double value : values) {
    const double difference = std::log(value) - logs.mean;
    logs.variance_of_mean += difference * difference / (n - 1) / n;
  }
  return logs;
}

Interval around(double log_centre, double half_width) {
  return {std::exp(log_centre - half_width), std::exp(log_centre + half_width)};
}

}  // namespace

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

size_t median_index(const std::vector<double>& values) {
  MLBENCH_CHECK(!values.empty(), "a median needs a value");
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  return order[(values.size() - 1) / 2];
}

double student_t_quantile(double p, double degrees) {
  MLBENCH_CHECK(p > 0 && p < 1 && degrees > 0, "a probability and degrees of freedom");
  double low = -1, high = 1;
  while (student_t_probability(low, degrees) > p) low *= 2;
  while (student_t_probability(high, degrees) < p) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-10 * std::max(1.0, std::abs(low)); ++i) {
    const double middle = (low + high) / 2;
    (student_t_probability(middle, degrees) < p ? low : high) = middle;
  }
  return (low + high) / 2;
}

std::optional<bool> RatioEstimate::differs() const {
  if (!interval) return std::nullopt;
  return interval->low > 1 || interval->high < 1;
}

std::optional<double> RatioEstimate::shown_by_half() const {
  if (!interval || no_spread) return std::nullopt;
  return std::sqrt(interval->high / interval->low) - 1;
}

namespace {

constexpr double kError = 0.05;
constexpr size_t kEnoughForWelch = 4;
constexpr double kRounding = 1e-12;  // equal ratios, such as 0.3 / 0.1 and 0.6 / 0.2, differ by less

// Precondition: one of the two has a variance.
double degrees_of_freedom(const Logs& a, const Logs& b) {
  const size_t smaller = std::min(a.count, b.count);
  const auto least = static_cast<double>(smaller - 1);
  if (smaller < kEnoughForWelch) return least;
  const double variance = a.variance_of_mean + b.variance_of_mean;
  const double welch = variance * variance /
                       (a.variance_of_mean * a.variance_of_mean / static_cast<double>(a.count - 1) +
                        b.variance_of_mean * b.variance_of_mean / static_cast<double>(b.count - 1));
  return std::min(welch, 2 * least);
}

}  // namespace

std::optional<RatioEstimate> ratio_of(const std::vector<double>& values, const std::vector<double>& others,
                                      size_t verdicts) {
  MLBENCH_CHECK(verdicts > 0, "an estimate is one verdict at least");
  auto a = logs_of(values), b = logs_of(others);
  if (!a || !b) return std::nullopt;
  RatioEstimate estimate;
  const double difference = a->mean - b->mean;
  estimate.ratio = std::exp(difference);
  if (a->count < 2 || b->count < 2) return estimate;
  const auto take_spread = [](Logs& one, const Logs& other) {
    if (one.variance_of_mean > 0) return;
    one.variance_of_mean = other.variance_of_mean * static_cast<double>(other.count) / static_cast<double>(one.count);
  };
  take_spread(*a, *b);
  take_spread(*b, *a);
  const double variance = a->variance_of_mean + b->variance_of_mean;
  estimate.no_spread = variance == 0;
  if (estimate.no_spread) {
    if (difference == 0) estimate.interval = Interval{1, 1};
    return estimate;
  }
  const double error = kError / static_cast<double>(verdicts);
  estimate.interval =
      around(difference, student_t_quantile(1 - error / 2, degrees_of_freedom(*a, *b)) * std::sqrt(variance));
  return estimate;
}

std::optional<RatioEstimate> paired_ratio_of(const std::vector<double>& values, const std::vector<double>& others,
                                             size_t verdicts) {
  MLBENCH_CHECK(verdicts > 0 && values.size() == others.size(), "pairs, and one verdict at least");
  if (!logs_of(values) || !logs_of(others)) return std::nullopt;
  std::vector<double> ratios;
  for (size_t i = 0; i < values.size(); ++i) ratios.push_back(values[i] / others[i]);
  const auto logs = logs_of(ratios);
  if (!logs) return std::nullopt;
  RatioEstimate estimate;
  estimate.ratio = std::exp(logs->mean);
  if (logs->count < 2) return estimate;
  estimate.no_spread = std::sqrt(logs->variance_of_mean) < kRounding;
  if (estimate.no_spread) {
    if (std::abs(logs->mean) < kRounding) estimate.interval = Interval{1, 1};
    return estimate;
  }
  const double t =
      student_t_quantile(1 - kError / static_cast<double>(verdicts) / 2, static_cast<double>(logs->count - 1));
  estimate.interval = around(logs->mean, t * std::sqrt(logs->variance_of_mean));
  return estimate;
}

Json json_of(const std::optional<Interval>& interval) {
  return interval ? Json({interval->low, interval->high}) : Json(nullptr);
}

std::optional<double> geometric_mean(const std::vector<double>& values) {
  if (values.size() == 1 && values[0] >= 0) return values[0];
  if (const auto logs = logs_of(values)) return std::exp(logs->mean);
  const bool zero = std::any_of(values.begin(), values.end(), [](double v) { return v == 0; }) &&
                    std::all_of(values.begin(), values.end(), [](double v) { return v >= 0 && std::isfinite(v); });
  return zero ? std::optional(0.0) : std::nullopt;
}

std::optional<Interval> interval_of(const std::vector<double>& values) {
  const auto logs = logs_of(values);
  if (!logs || logs->count < 2) return std::nullopt;
  const double t = student_t_quantile(0.975, static_cast<double>(logs->count - 1));
  return around(logs->mean, t * std::sqrt(logs->variance_of_mean));
}

std::optional<BoundedMean> bounded_mean(const std::vector<double>& values, const Interval& bounds) {
  const auto inside = [&](double value) { return value >= bounds.low && value <= bounds.high; };
  if (values.empty() || !std::ranges::all_of(values, inside)) return std::nullopt;
  const auto n = static_cast<double>(values.size());
  const bool equal = std::ranges::count(values, values.front()) == std::ssize(values);  // a sum's rounding is no spread
  BoundedMean found;
  found.mean = equal ? values.front() : std::accumulate(values.begin(), values.end(), 0.0) / n;
  if (values.size() < 2) return found;
  double squares = 0;
  for (const double value : values) squares += (value - found.mean) * (value - found.mean);
  const double half_width = student_t_quantile(0.975, n - 1) * std::sqrt(squares / (n - 1) / n);
  found.interval = {std::max(found.mean - half_width, bounds.low), std::min(found.mean + half_width, bounds.high)};
  return found;
}

}  // namespace mlbench::report
