#include "mlbench/store/merge.h"

#include <gmock/gmock.h>

#include <cmath>

namespace mlbench::store {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::NanSensitiveDoubleEq;

std::vector<Bucket> rank(const std::vector<std::pair<int64_t, double>>& rows) {
  std::vector<Bucket> buckets;
  for (const auto& [step, value] : rows) {
    buckets.push_back({step * 1000, step * 1000, step, step, value, value, value, 1});
  }
  return buckets;
}

std::vector<double> values_of(const std::vector<MergedRow>& rows) {
  std::vector<double> values;
  for (const MergedRow& row : rows) values.push_back(row.value);
  return values;
}

TEST(Merge, RatesAndCountsAddUpAndTheRestIsAMean) {
  EXPECT_EQ(merge_of("samples_per_s"), Merge::kSum);
  EXPECT_EQ(merge_of("bytes"), Merge::kSum);
  EXPECT_EQ(merge_of("cpu_cores"), Merge::kSum);
  EXPECT_EQ(merge_of("network_in_bytes_per_s"), Merge::kSum);
  EXPECT_EQ(merge_of("memory_bytes"), Merge::kSum);
  EXPECT_EQ(merge_of("loss"), Merge::kMean);
  EXPECT_EQ(name_of(merge_of("lr")), "mean");
}

TEST(Merge, IsAtTheStepsOfTheFirstRank) {
  const auto one = rank({{1, 1}, {3, 2}, {5, 3}}), two = rank({{2, 5}, {4, 7}});
  EXPECT_THAT(values_of(merged({one, two}, Merge::kMean)), ElementsAre(3, 4.5, 3));
  const auto sums = merged({one, two}, Merge::kSum);
  EXPECT_THAT(values_of(sums), ElementsAre(DoubleEq(6), DoubleEq(9), NanSensitiveDoubleEq(NAN)));
  EXPECT_EQ(sums[1].step, 3);
  EXPECT_EQ(sums[1].time_us, 3000);
  EXPECT_EQ(sums[1].count, 1);
}

TEST(Merge, OfRanksWithoutANumberIsOfTheOthers) {
  const auto one = rank({{1, NAN}, {2, 4}}), two = rank({{1, 2}, {2, INFINITY}});
  EXPECT_THAT(values_of(merged({one, two}, Merge::kMean)), ElementsAre(2, 4));
  EXPECT_THAT(values_of(merged({one, two}, Merge::kSum)),
              ElementsAre(NanSensitiveDoubleEq(NAN), NanSensitiveDoubleEq(NAN)));
}

TEST(Merge, OfNothingIsNothing) {
  EXPECT_THAT(merged({}, Merge::kSum), IsEmpty());
  EXPECT_THAT(merged({{}, rank({{1, 1}})}, Merge::kMean), IsEmpty());
}

}  // namespace
}  // namespace mlbench::store
