#include "mlbench/report/collectives/comparison.h"

#include <gmock/gmock.h>

#include <cmath>

#include "mlbench/base/random.h"
#include "mlbench/report/collectives/test_collectives.h"

namespace mlbench::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Starts = std::vector<CollectivesResult>;

// A start with sizes of 4, 8, ... bytes that have these medians.
CollectivesResult start(const std::string& name, const std::vector<double>& medians) {
  std::vector<record::CollectiveRow> rows;
  for (size_t i = 0; i < medians.size(); ++i) {
    rows.push_back(make_row("all_reduce", int64_t{1} << i, "float32", std::nullopt, make_form(medians[i], 1, 1)));
  }
  return make_result(name, "gloo", 2, rows);
}

// Four starts that differ by 1 % and 2 %.
Starts starts(const std::string& name, const std::vector<double>& medians) {
  Starts all;
  for (const double factor : {1.0, 1.01, 0.99, 1.02}) {
    std::vector<double> of_start = medians;
    for (double& median : of_start) median *= factor;
    all.push_back(start(all.empty() ? name : name + "." + std::to_string(all.size() + 1), of_start));
  }
  return all;
}

std::vector<CollectiveVerdict> verdicts_of(const CollectivesComparison& comparison) {
  std::vector<CollectiveVerdict> verdicts;
  for (const CollectiveComparison& one : comparison.rows) verdicts.push_back(one.verdict);
  return verdicts;
}

TEST(CollectivesComparison, AVerdictPerSizeBeyondNoise) {
  const auto comparison = compare_collectives(starts("a", {50, 100, 101, 200}), starts("b", {100, 100, 100, 100}));
  EXPECT_THAT(verdicts_of(comparison), ElementsAre(CollectiveVerdict::kFaster, CollectiveVerdict::kNoDifference,
                                                   CollectiveVerdict::kNoDifference, CollectiveVerdict::kSlower));
  EXPECT_NEAR(comparison.rows[0].estimate->ratio, 0.5, 1e-12);
  EXPECT_NEAR(comparison.rows[3].estimate->ratio, 2, 1e-12);
  EXPECT_EQ(comparison.faster, 1);
  EXPECT_EQ(comparison.slower, 1);
  EXPECT_EQ(comparison.same, 2);
  EXPECT_NEAR(*comparison.ratio, std::pow(0.5 * 1.01 * 2, 0.25), 1e-12);
  EXPECT_THAT(comparison.notes, IsEmpty());
}

// Iterations and cycles of a single start give no verdict.
TEST(CollectivesComparison, OneStartHasNoVerdict) {
  CollectivesResult one = start("a", {50}), other = start("b", {100});
  for (CollectivesResult* result : {&one, &other}) {
    for (int cycle = 0; cycle < 4; ++cycle) result->rows.push_back(result->rows[0]);
  }
  for (const auto& comparison : {compare_collectives({one}, {other}), compare_collectives({one}, starts("b", {100}))}) {
    EXPECT_THAT(verdicts_of(comparison), ElementsAre(CollectiveVerdict::kUnknown));
    EXPECT_EQ(comparison.rows[0].why_unknown, "needs starts");
    EXPECT_NEAR(comparison.rows[0].estimate->ratio, 0.5, 0.005);
    EXPECT_FALSE(comparison.rows[0].estimate->interval);
    EXPECT_THAT(comparison.notes, ElementsAre(HasSubstr("what differs from one start to the next")));
  }
}

TEST(CollectivesComparison, AStartCountsWithTheMedianOfItsCycles) {
  const auto cycles = [](const std::string& name, const std::vector<double>& medians) {
    std::vector<record::CollectiveRow> rows;
    for (const double median : medians) {
      rows.push_back(make_row("all_reduce", 4, "float32", std::nullopt, make_form(median, 1, 1, 20, 0.001)));
    }
    return make_result(name, "gloo", 2, rows);
  };
  const auto comparison = compare_collectives({cycles("a", {80, 100, 180}), cycles("a.2", {90, 102, 110})},
                                              {cycles("b", {1, 50, 51}), cycles("b.2", {51})});
  ASSERT_EQ(comparison.rows.size(), 1u);
  EXPECT_DOUBLE_EQ(comparison.rows[0].median_us, 101);
  EXPECT_NEAR(comparison.rows[0].estimate->ratio, std::sqrt(100 * 102 / (50.0 * 51)), 1e-12);
  EXPECT_EQ(comparison.rows[0].estimate->interval->low, ratio_of({100, 102}, {50, 51})->interval->low);
}

// The starts of both sides have one distribution: starts differ by 30 %, the cycles of a start by 1 %.
TEST(CollectivesComparison, LikeStartsAreSeldomCalledDifferent) {
  RandomSequence random(5);
  const auto side = [&](const std::string& name, size_t count) {
    Starts all;
    for (size_t i = 0; i < count; ++i) {
      std::vector<double> medians(10);
      for (double& median : medians) median = 100 * std::exp(0.3 * random.normal());
      CollectivesResult& one = all.emplace_back(start(name, medians));
      for (int cycle = 1; cycle < 3; ++cycle) {
        for (double& median : medians) median *= std::exp(0.01 * random.normal());
        const CollectivesResult again = start(name, medians);
        one.rows.insert(one.rows.end(), again.rows.begin(), again.rows.end());
      }
    }
    return all;
  };
  for (const size_t count : {size_t{2}, size_t{3}, size_t{4}, size_t{6}}) {
    int64_t rows = 0, different = 0;
    while (rows < 1000) {
      const auto comparison = compare_collectives(side("a", count), side("b", count));
      rows += static_cast<int64_t>(comparison.rows.size());
      different += comparison.faster + comparison.slower;
    }
    EXPECT_LE(different, 65) << "of 1000 rows, " << count << " starts of each; nominally 50";
  }
}

TEST(CollectivesComparison, WrongResultsHaveNoSpeed) {
  Starts wrong = starts("a", {50});
  wrong[2].rows[0].in_place->wrong = 1;
  const auto comparison = compare_collectives(wrong, starts("b", {100}));
  EXPECT_EQ(comparison.rows[0].verdict, CollectiveVerdict::kUnknown);
  EXPECT_EQ(comparison.rows[0].why_unknown, "wrong results");
  EXPECT_FALSE(comparison.rows[0].estimate);
}

TEST(CollectivesComparison, WhatATimeIsMustBeTheSame) {
  CollectivesResult other = start("b", {100});
  other.workers = 4;
  other.spec.average = spec::RankAverage::kMean;
  const auto comparison = compare_collectives({start("a", {50})}, {other});
  EXPECT_THAT(comparison.rows, IsEmpty());
  EXPECT_EQ(comparison.not_comparable, "not comparable: ranks (2, 4), average over ranks (max, avg) differ");
}

TEST(CollectivesComparison, StartsOfOneSideAreOfOneBenchmark) {
  Starts mixed = starts("a", {50});
  mixed[3].backend = "mpi";
  const auto comparison = compare_collectives(starts("b", {100}), mixed);
  EXPECT_THAT(comparison.rows, IsEmpty());
  EXPECT_EQ(comparison.not_comparable,
            "not comparable: a and a.4 are no starts of one benchmark (back end: gloo, mpi)");
  Starts elsewhere = starts("a", {50});  // pods have other names in each start
  elsewhere[1].devices[0].host = "node-9";
  EXPECT_EQ(compare_collectives(starts("b", {100}), elsewhere).not_comparable, "");
}

TEST(CollectivesComparison, WhatMayDifferIsSaid) {
  CollectivesResult result = start("a", {50, 50}), other = start("b", {100, 100, 100});
  other.backend = "mpi";
  other.rows[1].in_place.swap(other.rows[1].out_of_place);
  const auto comparison = compare_collectives({result}, {other});
  EXPECT_EQ(comparison.rows.size(), 1u);
  EXPECT_THAT(comparison.notes,
              testing::IsSupersetOf({testing::Eq("back end: gloo, mpi"), testing::Eq("1 rows are not in b"),
                                     testing::Eq("2 rows of b are not in a")}));
}

TEST(CollectivesComparison, Text) {
  auto comparison = compare_collectives(starts("a\x1b[2J", {50, 0.05, 100}), starts("b", {100, 100, 100}));
  comparison.notes = {"a note"};
  EXPECT_EQ(comparison_text(comparison),
            "a\\x1b[2J (4 starts) against b (4 starts): ratio of the medians, below 1 is faster [its 95 % interval]\n"
            "operation   size  type     redop  form      median   other                      ratio  verdict\n"
            "               B                                us      us\n"
            "all_reduce     4  float32  sum    in_place   50.25  100.50          0.50 [0.49, 0.51]  faster\n"
            "all_reduce     8  float32  sum    in_place    0.05  100.50  0.0005 [0.00049, 0.00051]  faster\n"
            "all_reduce    16  float32  sum    in_place  100.50  100.50          1.00 [0.98, 1.02]  no difference "
            "shown (2.2 % would show in 50 of 100)\n"
            "2 faster, 0 slower, 1 without a difference, 0 unknown; geometric mean of the ratios: 0.063\n"
            "note: a note\n");
}

TEST(CollectivesComparison, Document) {
  const Json json = to_json(compare_collectives(starts("a", {50}), {start("b", {100}), start("b.2", {101})}));
  EXPECT_EQ(json["starts"], 4);
  EXPECT_EQ(json["other_starts"], 2);
  EXPECT_EQ(json["rows"][0]["verdict"], "faster");
  EXPECT_EQ(json["rows"][0]["interval"].size(), 2u);
  EXPECT_TRUE(json["rows"][0]["shown_by_half"].is_number());
  EXPECT_EQ(json["faster"], 1);
  EXPECT_EQ(json["not_comparable"], nullptr);
}

}  // namespace
}  // namespace mlbench::report
