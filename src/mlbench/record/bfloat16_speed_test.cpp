#include "mlbench/record/bfloat16_speed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/processor.h"

namespace mlbench::record {
namespace {

using testing::HasSubstr;

// Pairs with these ratios of rates.
std::vector<TimedPair> pairs_of(const std::vector<double>& ratios) {
  std::vector<TimedPair> pairs;
  for (const double ratio : ratios) pairs.push_back({.float32_s = 0.002 * ratio, .bfloat16_s = 0.002});
  return pairs;
}

TEST(Bfloat16Speed, IsDecidedWhereTheWholeIntervalIsOnOneSideOfOne) {
  const Bfloat16Speed slower = bfloat16_speed("convolutions", pairs_of({0.6, 0.5, 0.7, 0.9, 0.8, 0.62, 0.61}));
  EXPECT_EQ(slower.verdict, kSlower);
  EXPECT_DOUBLE_EQ(slower.ratio.value(), 0.62);
  EXPECT_DOUBLE_EQ(slower.low.value(), 0.5);
  EXPECT_DOUBLE_EQ(slower.high.value(), 0.9);
  EXPECT_EQ(bfloat16_speed("products", pairs_of({1.6, 1.5, 1.7, 1.9, 1.8, 1.62, 1.61})).verdict, kFaster);
  EXPECT_EQ(bfloat16_speed("products", pairs_of({1.01, 0.5, 0.7, 0.9, 0.8, 0.62, 0.61})).verdict, kUndecided);
}

// One pair that something else disturbed does not turn a verdict: its order statistic lies outside of the interval.
TEST(Bfloat16Speed, AnOutlierAmongEnoughPairsDecidesNothing) {
  std::vector<double> ratios(20, 0.6);
  ratios.push_back(40);
  const Bfloat16Speed speed = bfloat16_speed("convolutions", pairs_of(ratios));
  EXPECT_EQ(speed.verdict, kSlower);
  EXPECT_DOUBLE_EQ(speed.high.value(), 0.6);
}

TEST(Bfloat16Speed, FewPairsDecideNothing) {
  const Bfloat16Speed speed = bfloat16_speed("products", pairs_of({0.5, 0.5, 0.5, 0.5, 0.5, 0.5}));
  EXPECT_EQ(speed.verdict, kUndecided);
  EXPECT_DOUBLE_EQ(speed.ratio.value(), 0.5);
  EXPECT_FALSE(speed.low || speed.high);
}

TEST(Bfloat16Speed, IsSaidWithItsRatioAndInterval) {
  const auto said = [](const std::vector<double>& ratios) {
    return describe_bfloat16(bfloat16_speed("convolutions", pairs_of(ratios)), "native");
  };
  EXPECT_EQ(
      said({0.6, 0.5, 0.7, 0.9, 0.8, 0.62, 0.61}),
      "bfloat16 is slower than float32 on this processor: convolutions of framework native have 0.62 (0.50 to 0.90) "
      "times the rate");
  EXPECT_THAT(said({1.6, 1.5, 1.7, 1.9, 1.8, 1.62, 1.61}), HasSubstr("is faster than float32"));
  EXPECT_THAT(said({1, 1, 1, 1, 1, 1, 1}), HasSubstr("is neither slower nor faster than float32"));
  EXPECT_EQ(describe_bfloat16(bfloat16_speed_not_known("products", "no such program"), "torch"),
            "how fast products of framework torch are in bfloat16 is not known: no such program");
}

TEST(Bfloat16Speed, IsKeptForAProcessorABuildAndAFramework) {
  if (processor_kind().empty()) GTEST_SKIP() << "missing capability: /proc/cpuinfo with the processor's model";
  const TemporaryFolder home;
  const Bfloat16Place place{home / "cache", "1234", "native"};
  EXPECT_FALSE(kept_bfloat16_speed(place, "convolutions"));
  keep_bfloat16_speed(place, bfloat16_speed("convolutions", pairs_of({0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5})));
  EXPECT_EQ(kept_bfloat16_speed(place, "convolutions").value().verdict, kSlower);
  EXPECT_FALSE(kept_bfloat16_speed(place, "products"));
  EXPECT_FALSE(kept_bfloat16_speed({place.cache_dir, "1235", "native"}, "convolutions"));
  EXPECT_FALSE(kept_bfloat16_speed({place.cache_dir, "1234", "torch"}, "convolutions"));
  setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
  EXPECT_FALSE(kept_bfloat16_speed(place, "convolutions")) << "oneDNN computes by other instructions";
  unsetenv("ONEDNN_MAX_CPU_ISA");

  for (const auto& file : std::filesystem::directory_iterator(home / "cache/bfloat16")) {
    write_file_atomically(file.path(), "{}");
  }
  EXPECT_FALSE(kept_bfloat16_speed(place, "convolutions")) << "what cannot be read is measured again";
  write_file_atomically(home / "file", "");
  keep_bfloat16_speed({home / "file", "1", "native"}, bfloat16_speed_not_known("products", "unwritable"));
}

TEST(Bfloat16Speed, IsReadAsItWasWritten) {
  const Json known = to_json(bfloat16_speed("convolutions", pairs_of({0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5})));
  EXPECT_EQ(to_json(bfloat16_speed_from_json(known, "x")), known);
  EXPECT_FALSE(known.contains("reason"));
  EXPECT_EQ(to_json(bfloat16_speed_not_known("products", "why")),
            Json::parse(R"({"work": "products", "verdict": "not known", "ratio": null, "low": null, "high": null,
                            "reason": "why"})"));
  EXPECT_THROW(bfloat16_speed_from_json({{"work", "products"}}, "x"), UserError);
}

}  // namespace
}  // namespace mlbench::record
