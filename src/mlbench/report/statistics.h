#pragma once

// The little statistics that tables and charts need. Repeats are few (2 to 10), so everything is exact for few.

#include <cstddef>
#include <optional>
#include <vector>

namespace mlbench::report {

// The mean of the two middle ones for an even count; empty without values.
std::optional<double> median(std::vector<double> values);

// Index of the value that is the median; for an even count of the lower of the two middle ones. At least one value.
size_t median_index(const std::vector<double>& values);

// x with P(T <= x) = p, T of Student's t distribution. 0 < p < 1, degrees > 0 (any real number); to 1e-7.
double student_t_quantile(double p, double degrees);

struct Interval {
  double low = 0, high = 0;
};

// A ratio of two groups of positive values: of their geometric means, with the 95 % interval that Welch's t test gives
// for the difference of the means of the logarithms. A group of one value has no spread: then there is no interval.
struct RatioEstimate {
  double ratio = 0;
  std::optional<Interval> interval;
  // The interval leaves out 1. Empty without an interval.
  std::optional<bool> differs() const;
};
// Empty when a group is empty or holds a value that is not positive.
std::optional<RatioEstimate> ratio_of(const std::vector<double>& values, const std::vector<double>& others);

// Of values that are not negative; empty without values.
std::optional<double> geometric_mean(const std::vector<double>& values);

// The 95 % interval of the geometric mean of positive values by Student's t; empty for fewer than two.
std::optional<Interval> interval_of(const std::vector<double>& values);

}  // namespace mlbench::report
