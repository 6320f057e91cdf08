#include "mlbench/metrics/bootstrap.h"

#include <gmock/gmock.h>

#include "mlbench/metrics/test_sacrebleu.h"
#include "mlbench/metrics/text_metric.h"

namespace mlbench::metrics {
namespace {

double mean_of(std::span<const double> sums) { return sums[0] / sums[1]; }

// One value per sentence; the score is their mean.
SentenceSums values(const std::vector<double>& of_sentences) {
  SentenceSums sums{2, {}};
  for (const double value : of_sentences) sums.values.insert(sums.values.end(), {value, 1});
  return sums;
}

TEST(Bootstrap, IntervalAndPValueOfResampledDifferences) {
  // 0 to 79: the outer two at each end lie outside. Mean of the absolute values 39.5; 10 lie more than 30 above.
  std::vector<double> resampled;
  for (int i = 79; i >= 0; --i) resampled.push_back(i);
  const PairedDifference found = paired_difference(30, resampled);
  EXPECT_EQ(found.difference, 30);
  EXPECT_EQ(found.low, 2);
  EXPECT_EQ(found.high, 77);
  EXPECT_DOUBLE_EQ(found.p_value, 11.0 / 81);
  // Signs go into the interval alone.
  for (double& one : resampled) one = -one;
  const PairedDifference turned = paired_difference(-30, resampled);
  EXPECT_EQ(turned.low, -77);
  EXPECT_EQ(turned.high, -2);
  EXPECT_EQ(turned.p_value, found.p_value);
}

TEST(Bootstrap, OfMeansIsWhatTheNormalDistributionSays) {
  // Differences of 400 sentences with mean 1 and deviation 1: the mean of a resample has deviation 1/20.
  std::vector<double> baseline, system;
  for (int i = 0; i < 400; ++i) {
    baseline.push_back(i % 7);
    system.push_back(baseline.back() + (i % 2 == 0 ? 0 : 2));
  }
  const PairedDifference found = paired_bootstrap(values(baseline), values(system), mean_of, {10'000, 1});
  EXPECT_DOUBLE_EQ(found.difference, 1);
  EXPECT_NEAR(found.low, 1 - 1.96 / 20, 0.01);
  EXPECT_NEAR(found.high, 1 + 1.96 / 20, 0.01);
  EXPECT_DOUBLE_EQ(found.p_value, 1.0 / 10'001);
}

TEST(Bootstrap, ASystemIsNotBetterThanItself) {
  const PairedDifference found = paired_bootstrap(values({1, 2, 3}), values({1, 2, 3}), mean_of, {});
  EXPECT_EQ(found.difference, 0);
  EXPECT_EQ(found.low, 0);
  EXPECT_EQ(found.high, 0);
}

TEST(Bootstrap, TheSeedDecides) {
  const SentenceSums baseline = values({1, 4, 2, 8, 5, 7}), system = values({2, 3, 4, 9, 3, 8});
  const auto run = [&](uint64_t seed) { return paired_bootstrap(baseline, system, mean_of, {1000, seed}); };
  EXPECT_EQ(run(1).p_value, run(1).p_value);
  EXPECT_EQ(run(1).low, run(1).low);
  EXPECT_NE(run(1).p_value, run(2).p_value);
  const PairedDifference turned = paired_bootstrap(system, baseline, mean_of, {1000, 1});
  EXPECT_EQ(turned.difference, -run(1).difference);
  EXPECT_EQ(turned.low, -run(1).high);
  EXPECT_EQ(turned.p_value, run(1).p_value);
}

TEST(Bootstrap, AgreesWithSacrebleuWithinItsChance) {
  const std::vector<std::string> system = sentences_of("system.txt"), other = sentences_of("other.txt");
  const std::vector<std::string> references = sentences_of("reference.txt");
  const Json& expected = sacrebleu()["paired"];
  for (const auto& [name, row] : expected["rows"].items()) {
    const auto metric = make_text_metric(name, {});
    const size_t width = metric->number_of_sums();
    SentenceSums even{width, std::vector<double>(width * system.size(), 0)}, odd = even;
    for (size_t i = 0; i < system.size(); ++i) {
      for (const bool first : {true, false}) {
        SentenceSums& sums = first ? even : odd;
        metric->add((i % 2 == 0) == first ? system[i] : other[i], std::span(references).subspan(i, 1),
                    std::span(sums.values).subspan(i * width, width));
      }
    }
    const auto score = [&](std::span<const double> sums) { return metric->score(sums); };
    const PairedDifference found = paired_bootstrap(even, odd, score, {expected["resamples"].get<int64_t>(), 12345});
    EXPECT_NEAR(found.difference, row["difference"].get<double>(), 1e-9) << name;
    // Ends of 20,000 draws have a standard error of some 1 % of the interval, the p-value one of 0.0035.
    const double width_of_interval = row["high"].get<double>() - row["low"].get<double>();
    EXPECT_NEAR(found.low, row["low"].get<double>(), 0.05 * width_of_interval) << name;
    EXPECT_NEAR(found.high, row["high"].get<double>(), 0.05 * width_of_interval) << name;
    EXPECT_NEAR(found.p_value, row["p_value"].get<double>(), 0.02) << name;
  }
}

}  // namespace
}  // namespace mlbench::metrics
