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

// A ratio of two groups of positive values: of their geometric means, with the interval that a t test gives for the
// difference of the means of the logarithms, their variances unequal. Its degrees of freedom are
//   those of the smaller group    where that has fewer than 4 values,
//   Welch's                       else, but at most twice those of the smaller group.
// Welch's alone call groups of one distribution different in 12 % (2 and 20 values) or 7 % (3 and 20), for the few tell
// too little of their spread; of skewed noise in 10 % (4 and 20). A group whose values are all equal tells nothing of
// its spread: the other's is taken for it.
struct RatioEstimate {
  double ratio = 0;
  std::optional<Interval> interval;  // none where a group has one value, or all are equal within unequal groups
  bool no_spread = false;  // all are equal within each group: a tie of all is no difference, another tells nothing
  // The interval leaves out 1. Empty without an interval.
  std::optional<bool> differs() const;
  // A ratio of so much above 1 is shown by half of such comparisons. Empty without a spread.
  std::optional<double> shown_by_half() const;
};
// Empty when a group is empty or holds a value that is not positive. Of `verdicts` such ratios together at least 95 %
// have every true ratio in its interval (Bonferroni).
std::optional<RatioEstimate> ratio_of(const std::vector<double>& values, const std::vector<double>& others,
                                      size_t verdicts = 1);

// Of values that are not negative; empty without values.
std::optional<double> geometric_mean(const std::vector<double>& values);

// The 95 % interval of the geometric mean of positive values by Student's t; empty for fewer than two.
std::optional<Interval> interval_of(const std::vector<double>& values);

}  // namespace mlbench::report
