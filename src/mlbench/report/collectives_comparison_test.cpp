#include "mlbench/report/collectives_comparison.h"

#include <gmock/gmock.h>

#include <cmath>

#include "mlbench/report/test_collectives.h"

namespace mlbench::report {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

CollectivesResult with_medians(const std::string& name, const std::vector<double>& medians, int64_t count = 20,
                               double spread = 0.02) {
  std::vector<record::CollectiveRow> rows;
  for (size_t i = 0; i < medians.size(); ++i) {
    rows.push_back(
        make_row("all_reduce", int64_t{1} << i, "float32", std::nullopt, make_form(medians[i], 1, 1, count, spread)));
  }
  return make_result(name, "gloo", 2, rows);
}

std::vector<CollectiveVerdict> verdicts_of(const CollectivesComparison& comparison) {
  std::vector<CollectiveVerdict> verdicts;
  for (const CollectiveComparison& one : comparison.rows) verdicts.push_back(one.verdict);
  return verdicts;
}

TEST(CollectivesComparison, AVerdictPerSizeBeyondNoise) {
  const auto comparison =
      compare_collectives(with_medians("a", {50, 100, 101, 200}), with_medians("b", {100, 100, 100, 100}));
  EXPECT_THAT(verdicts_of(comparison), ElementsAre(CollectiveVerdict::kFaster, CollectiveVerdict::kNoDifference,
                                                   CollectiveVerdict::kNoDifference, CollectiveVerdict::kSlower));
  EXPECT_DOUBLE_EQ(*comparison.rows[0].ratio, 0.5);
  EXPECT_DOUBLE_EQ(*comparison.rows[3].ratio, 2);
  EXPECT_EQ(comparison.faster, 1);
  EXPECT_EQ(comparison.slower, 1);
  EXPECT_EQ(comparison.same, 2);
  EXPECT_NEAR(*comparison.ratio, std::pow(0.5 * 1.01 * 2, 0.25), 1e-12);
  EXPECT_THAT(comparison.notes, Contains(HasSubstr("what differs from one time to the next is not in them")));
}

// 20 times from 98 to 102 in equal steps: the 5th and the 16th (record_test) are 98 + 4 * 4/19 and 98 + 15 * 4/19.
TEST(CollectivesComparison, TheIntervalByHand) {
  const auto comparison = compare_collectives(with_medians("a", {200}), with_medians("b", {100}));
  const double low = 98 + 16.0 / 19, high = 98 + 60.0 / 19;
  ASSERT_TRUE(comparison.rows[0].interval.has_value());
  EXPECT_NEAR(comparison.rows[0].interval->low, 2 * low / high, 1e-9);
  EXPECT_NEAR(comparison.rows[0].interval->high, 2 * high / low, 1e-9);
  EXPECT_FALSE(comparison.rows[0].of_cycles);
}

TEST(CollectivesComparison, MoreNoiseNeedsMoreDifference) {
  const auto noisy = compare_collectives(with_medians("a", {90}, 20, 0.5), with_medians("b", {100}, 20, 0.5));
  EXPECT_THAT(verdicts_of(noisy), ElementsAre(CollectiveVerdict::kNoDifference));
  const auto few = compare_collectives(with_medians("a", {50}, 6), with_medians("b", {100}, 6));
  EXPECT_THAT(verdicts_of(few), ElementsAre(CollectiveVerdict::kUnknown));
  EXPECT_EQ(few.rows[0].why_unknown, "too few iterations");
  EXPECT_DOUBLE_EQ(*few.rows[0].ratio, 0.5);
}

TEST(CollectivesComparison, CyclesShowWhatDiffersFromOneTimeToTheNext) {
  const auto cycles = [](const std::string& name, const std::vector<double>& medians) {
    std::vector<record::CollectiveRow> rows;
    for (const double median : medians) {
      rows.push_back(make_row("all_reduce", 4, "float32", std::nullopt, make_form(median, 1, 1, 20, 0.001)));
    }
    return make_result(name, "gloo", 2, rows);
  };
  // Within a time the iterations scatter by 0.1 %, between times by 30 %: no difference of 10 % can be seen.
  const auto same = compare_collectives(cycles("a", {80, 100, 120}), cycles("b", {90, 110, 130}));
  ASSERT_EQ(same.rows.size(), 1u);
  EXPECT_TRUE(same.rows[0].of_cycles);
  EXPECT_EQ(same.rows[0].verdict, CollectiveVerdict::kNoDifference);
  EXPECT_THAT(same.notes, IsEmpty());
  const auto faster = compare_collectives(cycles("a", {50, 51, 52}), cycles("b", {100, 101, 102}));
  EXPECT_EQ(faster.rows[0].verdict, CollectiveVerdict::kFaster);
  EXPECT_NEAR(*faster.rows[0].ratio, 0.505, 0.001);
  const auto two = compare_collectives(cycles("a", {80, 120}), cycles("b", {90, 130}));
  EXPECT_FALSE(two.rows[0].of_cycles);
  EXPECT_EQ(two.rows[0].verdict, CollectiveVerdict::kNoDifference) << "the intervals of both times are joined";
}

TEST(CollectivesComparison, WrongResultsHaveNoSpeed) {
  CollectivesResult wrong = with_medians("a", {50});
  wrong.rows[0].in_place->wrong = 1;
  const auto comparison = compare_collectives(wrong, with_medians("b", {100}));
  EXPECT_EQ(comparison.rows[0].verdict, CollectiveVerdict::kUnknown);
  EXPECT_EQ(comparison.rows[0].why_unknown, "wrong results");
  EXPECT_EQ(comparison.rows[0].ratio, std::nullopt);
}

TEST(CollectivesComparison, WhatATimeIsMustBeTheSame) {
  const CollectivesResult result = with_medians("a", {50});
  CollectivesResult other = with_medians("b", {100});
  other.workers = 4;
  other.spec.average = spec::RankAverage::kMean;
  const auto comparison = compare_collectives(result, other);
  EXPECT_THAT(comparison.rows, IsEmpty());
  EXPECT_EQ(comparison.not_comparable, "not comparable: ranks (2, 4), average over ranks (max, avg) differ");
}

TEST(CollectivesComparison, WhatMayDifferIsSaid) {
  CollectivesResult result = with_medians("a", {50, 50}), other = with_medians("b", {100, 100, 100});
  other.backend = "mpi";
  other.rows[1].in_place.swap(other.rows[1].out_of_place);
  const auto comparison = compare_collectives(result, other);
  EXPECT_EQ(comparison.rows.size(), 1u);
  EXPECT_THAT(comparison.notes,
              testing::IsSupersetOf({testing::Eq("back end: gloo, mpi"), testing::Eq("1 rows are not in b"),
                                     testing::Eq("2 rows of b are not in a")}));
}

TEST(CollectivesComparison, Text) {
  auto comparison = compare_collectives(with_medians("a\x1b[2J", {50, 100}), with_medians("b", {100, 100}));
  comparison.notes = {"a note"};
  EXPECT_EQ(comparison_text(comparison),
            "a\\x1b[2J against b: ratio of the medians, below 1 is faster [its 95 % interval]\n"
            "operation   size  type     redop  form      median   other              ratio  verdict\n"
            "               B                                us      us\n"
            "all_reduce     4  float32  sum    in_place   50.00  100.00  0.50 [0.49, 0.51]  faster\n"
            "all_reduce     8  float32  sum    in_place  100.00  100.00  1.00 [0.98, 1.02]  no difference\n"
            "1 faster, 0 slower, 1 without a difference, 0 unknown; geometric mean of the ratios: 0.71\n"
            "note: a note\n");
}

TEST(CollectivesComparison, Document) {
  const Json json = to_json(compare_collectives(with_medians("a", {50}), with_medians("b", {100})));
  EXPECT_EQ(json["rows"][0]["verdict"], "faster");
  EXPECT_EQ(json["rows"][0]["interval_of"], "iterations");
  EXPECT_EQ(json["rows"][0]["interval"].size(), 2u);
  EXPECT_EQ(json["faster"], 1);
  EXPECT_EQ(json["not_comparable"], nullptr);
}

}  // namespace
}  // namespace mlbench::report
