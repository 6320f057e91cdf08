#include "mlbench/report/statistics.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mlbench::report {
namespace {

TEST(Statistics, Median) {
  EXPECT_FALSE(median({}));
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_EQ(median_index({30, 10, 20}), 2U);
  EXPECT_EQ(median_index({40, 10, 20, 30}), 2U);  // the lower of 20 and 30
  EXPECT_EQ(median_index({5}), 0U);
}

// Printed tables of the t distribution, two-sided 95 %, and the closed form for one degree of freedom.
TEST(Statistics, StudentT) {
  EXPECT_NEAR(student_t_quantile(0.975, 1), std::tan(M_PI * 0.475), 1e-7);
  EXPECT_NEAR(student_t_quantile(0.975, 2), 4.302652730, 1e-8);
  EXPECT_NEAR(student_t_quantile(0.975, 4), 2.776445105, 1e-8);
  EXPECT_NEAR(student_t_quantile(0.975, 10), 2.228138852, 1e-8);
  EXPECT_NEAR(student_t_quantile(0.975, 30), 2.042272456, 1e-8);
  EXPECT_NEAR(student_t_quantile(0.975, 1e7), 1.959964, 1e-5);
  EXPECT_NEAR(student_t_quantile(0.5, 3), 0, 1e-7);
  EXPECT_NEAR(student_t_quantile(0.025, 4), -2.776445105, 1e-8);
}

TEST(Statistics, RatioOfClearlyDifferentGroups) {
  const auto estimate = ratio_of({40, 41, 39}, {20, 20.5, 19.5});
  EXPECT_NEAR(estimate->ratio, 2, 1e-3);
  EXPECT_GT(estimate->interval->low, 1.8);
  EXPECT_LT(estimate->interval->high, 2.2);
  EXPECT_EQ(estimate->differs(), true);
}

TEST(Statistics, RatioOfNoisyGroupsDoesNotDiffer) {
  const auto estimate = ratio_of({40, 50, 45}, {44, 52, 39});
  EXPECT_EQ(estimate->differs(), false);
}

// Logarithms 0, 2 and 1, 3: means 1 and 2, variances of the mean 1 each, 2 degrees of freedom by Welch.
TEST(Statistics, RatioByHand) {
  const auto estimate = ratio_of({1, std::exp(2)}, {std::exp(1), std::exp(3)});
  EXPECT_NEAR(estimate->ratio, std::exp(-1), 1e-12);
  EXPECT_NEAR(std::log(estimate->interval->high), -1 + 4.302652730 * std::sqrt(2), 1e-7);
}

TEST(Statistics, OneRunHasNoInterval) {
  const auto estimate = ratio_of({40}, {20, 21});
  EXPECT_NEAR(estimate->ratio, 40 / std::sqrt(420.0), 1e-12);
  EXPECT_FALSE(estimate->interval);
  EXPECT_FALSE(estimate->differs());
  EXPECT_FALSE(ratio_of({}, {1}));
  EXPECT_FALSE(ratio_of({0}, {1}));
  EXPECT_FALSE(interval_of({3}));
}

TEST(Statistics, GeometricMeanByHand) {
  EXPECT_NEAR(*geometric_mean({1, 10, 100}), 10, 1e-12);
  EXPECT_EQ(geometric_mean({85.25}), 85.25);
  EXPECT_EQ(geometric_mean({0, 3}), 0);
  EXPECT_FALSE(geometric_mean({}));
  EXPECT_FALSE(geometric_mean({-1, 3}));
}

TEST(Statistics, EqualRepeatsHaveAnIntervalOfNoWidth) {
  EXPECT_EQ(ratio_of({2, 2}, {1, 1})->differs(), true);
  EXPECT_EQ(ratio_of({2, 2}, {2, 2})->differs(), false);
  EXPECT_EQ(interval_of({2, 2})->low, interval_of({2, 2})->high);
}

}  // namespace
}  // namespace mlbench::report
