#include "mlbench/report/study/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "mlbench/base/random.h"

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

// Logarithms 0, 2 and 1, 3: means 1 and 2, variances of the mean 1 each; 1 degree of freedom, of each of the two.
TEST(Statistics, RatioByHand) {
  const auto estimate = ratio_of({1, std::exp(2)}, {std::exp(1), std::exp(3)});
  EXPECT_NEAR(estimate->ratio, std::exp(-1), 1e-12);
  EXPECT_NEAR(std::log(estimate->interval->high), -1 + std::tan(M_PI * 0.475) * std::sqrt(2), 1e-7);
  EXPECT_NEAR(std::log1p(*estimate->shown_by_half()), std::tan(M_PI * 0.475) * std::sqrt(2), 1e-7);
  const auto one_of_three = ratio_of({1, std::exp(2)}, {std::exp(1), std::exp(3)}, 3);
  EXPECT_NEAR(std::log(one_of_three->interval->high), -1 + std::tan(M_PI * (0.5 - 0.05 / 6)) * std::sqrt(2), 1e-7);
}

// Logarithms 0, 0, 2, 2 twice: variances of the mean 1/3 each; 6 degrees of freedom by Welch, twice the 3 of a group.
TEST(Statistics, FourRepeatsHaveTheDegreesOfBothGroups) {
  const std::vector<double> values = {1, 1, std::exp(2), std::exp(2)};
  EXPECT_NEAR(std::log(ratio_of(values, values)->interval->high), 2.446911851 * std::sqrt(2.0 / 3), 1e-7);
}

// By hand: the logarithms of the ratios are log 0.5, log 0.48 and log 0.52. Their mean is -0.6937, their deviation
// 0.040024, so its error 0.0231079; t of 2 degrees at 0.975 is 4.302653, at 1 - 0.05 / 6 it is 7.648804.
TEST(Statistics, PairsByHand) {
  const std::vector<double> values = {20, 24, 15.6}, others = {40, 50, 30};
  const auto paired = paired_ratio_of(values, others);
  EXPECT_NEAR(paired->ratio, std::cbrt(0.5 * 0.48 * 0.52), 1e-12);
  const double error = std::log(paired->interval->high / paired->ratio) / 4.302652730;
  EXPECT_NEAR(error, 0.0231079, 1e-7);
  EXPECT_NEAR(std::log(paired->ratio / paired->interval->low), 4.302652730 * error, 1e-9);
  EXPECT_EQ(paired->differs(), true);
  EXPECT_FALSE(ratio_of(values, others)->differs().value()) << "as groups, their spread hides it";
  EXPECT_NEAR(std::log(paired_ratio_of(values, others, 3)->interval->high / paired->ratio), 7.648804 * error, 1e-6);
}

TEST(Statistics, EqualPairsTellNoSpread) {
  const auto equal = paired_ratio_of({0.3, 0.6}, {0.1, 0.2});
  EXPECT_TRUE(equal->no_spread);
  EXPECT_FALSE(equal->differs());
  EXPECT_EQ(paired_ratio_of({2, 3}, {2, 3})->differs(), false);
  EXPECT_FALSE(paired_ratio_of({40}, {20})->interval);
  EXPECT_FALSE(paired_ratio_of({}, {}));
  EXPECT_FALSE(paired_ratio_of({0, 1}, {1, 1}));
}

// ---- how often groups of one distribution are called different ------------------------------------------------------

struct Sizes {
  size_t few, many;
  double other_noise = 1;  // noise of the smaller group, as a multiple of the larger's
};
constexpr Sizes kSizes[] = {{2, 2}, {2, 5},  {2, 20}, {3, 3},  {3, 5},  {3, 20},
                            {4, 4}, {4, 20}, {5, 5},  {5, 20}, {10, 10}};

std::vector<double> drawn(RandomSequence& random, size_t count, double noise) {
  std::vector<double> values;
  for (size_t i = 0; i < count; ++i) values.push_back(100 * std::exp(noise * random.normal()));
  return values;
}

// The share of draws in which one of `verdicts` verdicts says that two samples of one distribution differ. Values are
// rounded to multiples of `rounded_to`, unless that is 0.
double false_alarms(const Sizes& sizes, size_t verdicts, double noise, double rounded_to = 0) {
  constexpr size_t kDraws = 2000;
  size_t alarms = 0;
  RandomSequence random(17);
  const auto sample = [&](size_t count, double of_noise) {
    std::vector<double> values = drawn(random, count, of_noise);
    for (double& value : values) value = rounded_to > 0 ? std::round(value / rounded_to) * rounded_to : value;
    return values;
  };
  for (size_t draw = 0; draw < kDraws; ++draw) {
    bool differs = false;
    for (size_t verdict = 0; verdict < verdicts; ++verdict) {
      const std::vector<double> values = sample(sizes.few, noise * sizes.other_noise);
      differs = ratio_of(values, sample(sizes.many, noise), verdicts)->differs().value_or(false) || differs;
    }
    alarms += differs ? 1 : 0;
  }
  return static_cast<double>(alarms) / kDraws;
}

constexpr double kMostFalseAlarms = 0.065;  // nominally 0.05; three deviations of 2000 draws are 0.015

TEST(Statistics, LikeGroupsAreSeldomCalledDifferent) {
  for (const Sizes& sizes : kSizes) {
    EXPECT_LE(false_alarms(sizes, 1, 0.2), kMostFalseAlarms) << sizes.few << ":" << sizes.many;
    EXPECT_LE(false_alarms(sizes, 3, 0.05), kMostFalseAlarms) << "three of " << sizes.few << ":" << sizes.many;
  }
  for (const double other_noise : {0.25, 4.0}) {
    for (const Sizes& sizes : {Sizes{2, 5, other_noise}, {2, 20, other_noise}, {3, 20, other_noise}}) {
      EXPECT_LE(false_alarms(sizes, 1, 0.05), kMostFalseAlarms)
          << sizes.few << ":" << sizes.many << ", noise of the few ones x " << other_noise;
    }
  }
}

// What the two of a pair share, however large, is no reason for an alarm.
TEST(Statistics, LikePairsAreSeldomCalledDifferent) {
  for (const size_t pairs : {2U, 3U, 5U, 20U}) {
    constexpr size_t kDraws = 2000;
    size_t alarms = 0;
    RandomSequence random(19);
    for (size_t draw = 0; draw < kDraws; ++draw) {
      std::vector<double> values = drawn(random, pairs, 0.05), others = drawn(random, pairs, 0.05);
      for (size_t i = 0; i < pairs; ++i) {
        const double shared = std::exp(random.normal());
        values[i] *= shared;
        others[i] *= shared;
      }
      alarms += paired_ratio_of(values, others)->differs().value_or(false) ? 1 : 0;
    }
    EXPECT_LE(static_cast<double>(alarms) / kDraws, kMostFalseAlarms) << pairs;
  }
}

// An accuracy of few samples has few values: repeats are often equal.
TEST(Statistics, LikeGroupsOfFewValuesAreSeldomCalledDifferent) {
  for (const Sizes& sizes : kSizes) {
    for (const double rounded_to : {0.5, 1.0, 2.0, 3.0, 5.0}) {
      EXPECT_LE(false_alarms(sizes, 1, 0.01, rounded_to), kMostFalseAlarms)
          << sizes.few << ":" << sizes.many << ", rounded to " << rounded_to;
    }
  }
}

// Half of the comparisons of groups that differ by just shown_by_half() show a difference.
TEST(Statistics, HalfShowWhatIsSaidThatHalfShow) {
  for (const Sizes& sizes : {Sizes{3, 3}, {3, 20}, {5, 5}, {10, 10}}) {
    constexpr size_t kDraws = 1000;
    RandomSequence random(18);
    size_t shown = 0;
    for (size_t draw = 0; draw < kDraws; ++draw) {
      const double size = *ratio_of(drawn(random, sizes.few, 0.1), drawn(random, sizes.many, 0.1))->shown_by_half();
      std::vector<double> slower = drawn(random, sizes.few, 0.1);
      for (double& value : slower) value *= 1 + size;
      shown += ratio_of(slower, drawn(random, sizes.many, 0.1))->differs().value_or(false) ? 1 : 0;
    }
    EXPECT_NEAR(static_cast<double>(shown) / kDraws, 0.5, 0.07) << sizes.few << ":" << sizes.many;
  }
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

// By hand: the deviation of {79, 83} is sqrt(8), its mean's 2, and t of one degree of freedom is 12.706.
TEST(Statistics, IntervalsOfSharesEndAtTheirBounds) {
  const Interval percent{0, 100};
  const auto narrow = bounded_mean({80.9, 81.1}, percent);
  EXPECT_DOUBLE_EQ(narrow->mean, 81);
  EXPECT_NEAR(narrow->interval->low, 81 - 0.1 * 12.7062, 1e-4);
  EXPECT_NEAR(narrow->interval->high, 81 + 0.1 * 12.7062, 1e-4);
  const auto wide = bounded_mean({79, 83}, percent);
  EXPECT_NEAR(wide->interval->low, 81 - 2 * 12.7062, 1e-3);
  EXPECT_EQ(wide->interval->high, 100);
  EXPECT_GT(interval_of({79, 83})->high, 100) << "as the interval of the geometric mean is";
  EXPECT_EQ(bounded_mean({0, 1}, percent)->interval->low, 0);
  EXPECT_EQ(bounded_mean({100, 100, 100}, percent)->interval->low, 100);
  EXPECT_FALSE(bounded_mean({85}, percent)->interval);
  EXPECT_EQ(bounded_mean({85}, percent)->mean, 85);
  for (const auto& values : {std::vector<double>{}, {100.1, 90}, {-1}, {NAN, 90}}) {
    EXPECT_FALSE(bounded_mean(values, percent));
  }
}

// The true mean of a share near its bound is held by the cut interval in at least 95 % of cases.
TEST(Statistics, ACutIntervalHoldsTheTrueMean) {
  for (const size_t repeats : {size_t{2}, size_t{4}}) {
    constexpr size_t kDraws = 2000;
    RandomSequence random(31);
    size_t held = 0;
    for (size_t draw = 0; draw < kDraws; ++draw) {
      std::vector<double> shares;
      for (size_t i = 0; i < repeats; ++i) shares.push_back(std::min(98 + 0.7 * random.normal(), 100.0));
      const auto found = bounded_mean(shares, {0, 100});
      held += found->interval->low <= 98 && 98 <= found->interval->high ? 1 : 0;
      ASSERT_LE(found->interval->high, 100);
    }
    EXPECT_GE(static_cast<double>(held) / kDraws, 0.93) << repeats;
  }
}

// The means of three and of seven logarithms of 0.1 differ in their last digits, where they are computed from sums.
TEST(Statistics, ATieOfAllIsNoDifferenceAndEqualRepeatsTellNoSpread) {
  const auto tie = ratio_of(std::vector<double>(3, 0.1), std::vector<double>(7, 0.1));
  EXPECT_EQ(tie->ratio, 1);
  EXPECT_EQ(tie->differs(), false);
  EXPECT_FALSE(tie->shown_by_half());
  EXPECT_EQ(ratio_of({2, 2}, {2, 2})->differs(), false);
  const auto unequal = ratio_of({2, 2}, {1, 1});
  EXPECT_TRUE(unequal->no_spread);
  EXPECT_FALSE(unequal->differs());
  EXPECT_EQ(ratio_of({2, 2.1, 1.9}, {1, 1, 1})->differs(), true);
  EXPECT_EQ(interval_of({2, 2})->low, interval_of({2, 2})->high);
}

}  // namespace
}  // namespace mlbench::report
