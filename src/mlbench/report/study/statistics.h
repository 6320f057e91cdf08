#pragma once

// The statistics that tables and charts need. Repeats are few (2 to 10), so all methods are exact for few values.

#include <cstddef>
#include <optional>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::report {

// The median; for an even count, the mean of the two middle values. Empty without values.
std::optional<double> median(std::vector<double> values);

// The index of the median in `values`; for an even count, of the lower of the two middle values. Precondition: there is
// at least one value.
size_t median_index(const std::vector<double>& values);

// The x with P(T <= x) = p, where T has Student's t distribution with `degrees` degrees of freedom, accurate to 1e-7.
// Precondition: 0 < p < 1 and degrees > 0 (any real number).
double student_t_quantile(double p, double degrees);

struct Interval {
  double low = 0, high = 0;
};
// [low, high], or null.
Json json_of(const std::optional<Interval>& interval);

// The ratio of the geometric means of two groups of positive values. Its interval is what a t test for unequal
// variances gives for the difference of the means of the logarithms. The degrees of freedom are
//   those of the smaller group    where it has fewer than 4 values,
//   Welch's                       else, but at most twice those of the smaller group.
// With Welch's degrees alone, groups of one distribution would be called different in 12 % (2 and 20 values) or 7 % (3
// and 20), since few values say too little about their spread; with skewed noise in 10 % (4 and 20). A group whose
// values are all equal says nothing about its spread, so the other group's spread is taken for it.
struct RatioEstimate {
  double ratio = 0;
  std::optional<Interval> interval;  // empty where a group has one value, and where no_spread but for a ratio of 1
  bool no_spread = false;            // in each group all values are equal
  // Whether the interval leaves out 1. Empty without an interval.
  std::optional<bool> differs() const;
  // How far above 1 a true ratio must be for half of such comparisons to show a difference. Empty without a spread.
  std::optional<double> shown_by_half() const;
};
// The ratio of `values` to `others`; empty when a group is empty or holds a value that is not positive and finite. The
// interval is so wide that `verdicts` such intervals hold all their true ratios in at least 95 % of cases (Bonferroni).
// Precondition: verdicts > 0.
std::optional<RatioEstimate> ratio_of(const std::vector<double>& values, const std::vector<double>& others,
                                      size_t verdicts = 1);

// The ratio where values[i] and others[i] belong together: the geometric mean of their ratios, whose interval is what a
// paired t test of the logarithms gives. It has no_spread where all these ratios are equal. Precondition: there are as
// many others as values.
std::optional<RatioEstimate> paired_ratio_of(const std::vector<double>& values, const std::vector<double>& others,
                                             size_t verdicts = 1);

// The geometric mean; empty without values, and where one is negative or not finite.
std::optional<double> geometric_mean(const std::vector<double>& values);

// The 95 % interval of the geometric mean of positive values by Student's t; empty for fewer than two.
std::optional<Interval> interval_of(const std::vector<double>& values);

// The arithmetic mean of values that lie between `bounds`. Its 95 % interval by Student's t ends at these bounds: the
// true mean lies between them, so the cut takes nothing from the 95 %. Empty without values, and where one is not
// finite or lies outside; a single value has no interval.
struct BoundedMean {
  double mean = 0;
  std::optional<Interval> interval;
};
std::optional<BoundedMean> bounded_mean(const std::vector<double>& values, const Interval& bounds);

}  // namespace mlbench::report
