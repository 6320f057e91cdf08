#include "mlbench/report/study/significance.h"

#include <gmock/gmock.h>

#include <cmath>

#include "mlbench/report/test_records.h"

namespace mlbench::report {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<record::Record> repeats(const std::string& name, const std::vector<double>& seconds) {
  std::vector<record::Record> records;
  for (size_t i = 0; i < seconds.size(); ++i) {
    records.push_back(make_record(name + "." + std::to_string(i + 1), 2, seconds[i], 100'000 / seconds[i], true));
  }
  return records;
}

TEST(Significance, ARealDifference) {
  const Significance significance =
      significance_of({{"a-2", repeats("a-2", {40, 41, 39})}, {"b-2", repeats("b-2", {20, 20.5, 19.5})}}, {});
  EXPECT_NEAR(*significance.runs[0].time_to_goal_s.mean, std::cbrt(40 * 41 * 39), 1e-9);
  EXPECT_NEAR(significance.runs[1].time_ratio->ratio, 0.5, 1e-3);
  EXPECT_EQ(significance.runs[1].time_ratio->differs(), true);
  const std::string text = significance_text(significance);
  EXPECT_THAT(text, HasSubstr("Ratio to a-2"));
  EXPECT_THAT(text, HasSubstr("faster"));
  EXPECT_EQ(to_json(significance)["runs"][1]["time_to_goal_ratio"]["differs"], true);
}

TEST(Significance, NoiseIsNoDifferenceAndOneRunSaysNothing) {
  const Significance noisy =
      significance_of({{"a-2", repeats("a-2", {40, 50, 45})}, {"b-2", repeats("b-2", {44, 52, 39})}}, {});
  EXPECT_THAT(significance_text(noisy), HasSubstr("no difference shown"));
  const Significance single = significance_of({{"a-2", repeats("a-2", {40})}, {"b-2", repeats("b-2", {20})}}, {});
  EXPECT_THAT(significance_text(single), HasSubstr("not known: needs repeats"));
  EXPECT_EQ(to_json(single)["runs"][1]["time_to_goal_ratio"]["differs"], nullptr);
}

// Each of three verdicts has a third of the error, and says how large a difference it would have shown.
TEST(Significance, VerdictsOfOnePairShareTheirError) {
  const std::vector<double> first = {40, 50, 45}, second = {44, 52, 39};
  const auto one = repeats("a-2", first), other = repeats("b-2", second);
  const RepeatedFigures three = significance_of({{"a-2", one}, {"b-2", other}}, {}).runs[1];
  ASSERT_TRUE(three.time_ratio->interval && three.rate_ratio->interval && three.value_ratio);
  const size_t verdicts = three.value_ratio->interval ? 3 : 2;
  EXPECT_DOUBLE_EQ(three.time_ratio->interval->low, ratio_of(second, first, verdicts)->interval->low);
  const Significance early = significance_of({{"a-2", one}, {"b-2", other}}, {1});
  EXPECT_EQ(early.runs[1].value_ratio, std::nullopt) << "nobody has a value after a second";
  EXPECT_DOUBLE_EQ(early.runs[1].time_ratio->interval->low, ratio_of(second, first, 2)->interval->low);
  const int size = static_cast<int>(std::round(*ratio_of(second, first, 2)->shown_by_half() * 100));
  EXPECT_THAT(significance_text(early),
              HasSubstr("no difference shown (" + std::to_string(size) + " % would show in 50 of 100)"));
  EXPECT_DOUBLE_EQ(to_json(early)["runs"][1]["time_to_goal_ratio"]["shown_by_half"].get<double>(),
                   *early.runs[1].time_ratio->shown_by_half());
}

std::vector<record::Record> with_seeds(std::vector<record::Record> records, const std::vector<uint64_t>& seeds) {
  for (size_t i = 0; i < records.size(); ++i) records[i].seed = seeds[i];
  return records;
}

// Each repeat of b takes about half as long as that of a with the same seed, while the seeds differ a lot.
TEST(Significance, RepeatsArePairedByTheirSeeds) {
  const auto first = with_seeds(repeats("a-2", {40, 50, 30}), {7, 8, 9});
  const auto second = with_seeds(repeats("b-2", {15.6, 20, 24}), {9, 7, 8});
  const Significance significance = significance_of({{"a-2", first}, {"b-2", second}}, {1});
  const RepeatedFigures& compared = significance.runs[1];
  EXPECT_TRUE(compared.paired);
  const auto expected = paired_ratio_of({15.6, 20, 24}, {30, 40, 50}, 2);
  EXPECT_DOUBLE_EQ(compared.time_ratio->interval->low, expected->interval->low);
  EXPECT_DOUBLE_EQ(compared.time_ratio->interval->high, expected->interval->high);
  EXPECT_EQ(compared.time_ratio->differs(), true);
  EXPECT_THAT(significance_text(significance), HasSubstr("  -  paired by seed  -\n"));
  EXPECT_EQ(to_json(significance)["runs"][1]["paired_by_seed"], true);
  EXPECT_EQ(to_json(significance)["runs"][0]["paired_by_seed"], false);
}

TEST(Significance, WordsAreThoseOfTheTables) {
  const auto first = with_seeds(repeats("a-2", {40, 50, 30}), {7, 8, 9});
  const auto second = with_seeds(repeats("b-2", {20, 24, 15.6}), {7, 8, 9});
  const Significance significance = significance_of({{"a-2", first}, {"b-2", second}}, {});
  const std::string text = significance_text(significance);
  const Json words = words_json(significance);
  ASSERT_EQ(words.size(), 2U);
  for (const char* key : {"time_to_goal_s", "samples_per_s", "value_after"}) {
    EXPECT_THAT(text, HasSubstr("  " + words[1][key].get<std::string>())) << key;
  }
  const std::string ratio = words[1]["time_to_goal_ratio"];
  EXPECT_THAT(ratio, testing::EndsWith("], faster"));
  EXPECT_THAT(text, HasSubstr(ratio.substr(0, ratio.find("], faster")) + "]  faster"));
  EXPECT_EQ(words[1]["paired_by_seed"], "paired by seed");
  EXPECT_EQ(words[0]["time_to_goal_ratio"], "-");
}

TEST(Significance, OtherSeedsAreNoPairs) {
  const auto first = with_seeds(repeats("a-2", {40, 50, 30}), {7, 8, 9});
  for (const auto& seeds : {std::vector<uint64_t>{7, 8, 10}, {7, 7, 8}}) {
    const auto second = with_seeds(repeats("b-2", {20, 24, 15.6}), seeds);
    const Significance significance = significance_of({{"a-2", first}, {"b-2", second}}, {1});
    EXPECT_FALSE(significance.runs[1].paired);
    EXPECT_DOUBLE_EQ(significance.runs[1].time_ratio->interval->low,
                     ratio_of({20, 24, 15.6}, {40, 50, 30}, 2)->interval->low);
    EXPECT_THAT(significance_text(significance), testing::Not(HasSubstr("paired")));
  }
  const auto fewer = with_seeds(repeats("b-2", {20, 24}), {7, 8});
  EXPECT_FALSE(significance_of({{"a-2", first}, {"b-2", fewer}}, {}).runs[1].paired);
}

TEST(Significance, EqualRepeatsSayNothing) {
  const Significance tie =
      significance_of({{"a-2", repeats("a-2", {40, 40})}, {"b-2", repeats("b-2", {40, 40, 40})}}, {});
  EXPECT_THAT(significance_text(tie), HasSubstr("no difference: all equal"));
  const Significance other =
      significance_of({{"a-2", repeats("a-2", {40, 40})}, {"b-2", repeats("b-2", {41, 41})}}, {});
  EXPECT_THAT(significance_text(other), HasSubstr("not known: equal repeats"));
  EXPECT_EQ(to_json(other)["runs"][1]["time_to_goal_ratio"]["differs"], nullptr);
  EXPECT_EQ(to_json(other)["runs"][1]["time_to_goal_ratio"]["no_spread"], true);
}

TEST(Significance, ARepeatThatMissedLeavesNoTime) {
  auto second = repeats("b-2", {20, 21});
  second[1].goal->reached = false;
  const Significance significance = significance_of({{"a-2", repeats("a-2", {40, 41})}, {"b-2", second}}, {});
  EXPECT_FALSE(significance.runs[1].time_ratio);
  EXPECT_TRUE(significance.runs[1].rate_ratio);
  EXPECT_THAT(significance.notes, ElementsAre(HasSubstr("b-2: 1 of 2 repeats missed the goal")));
  EXPECT_THAT(significance_text(significance), HasSubstr("1 of 2 reached"));
}

TEST(Significance, OtherGoalsAreNotCompared) {
  auto second = repeats("b-2", {20, 21});
  for (record::Record& record : second) record.goal->target = 91.5;
  const Significance significance = significance_of({{"a-2", repeats("a-2", {40, 41})}, {"b-2", second}}, {});
  EXPECT_FALSE(significance.runs[1].time_ratio);
  EXPECT_FALSE(significance.runs[1].rate_ratio);
  EXPECT_THAT(significance.notes, ElementsAre("b-2: no ratio: goal differs"));
}

TEST(Significance, ValuesAfterAreOfOneMetric) {
  auto second = repeats("b-2", {20, 21}), third = repeats("c-2", {30, 31});
  for (record::Record& record : second) record.goal->metric = "loss";
  for (record::Record& record : third) record.goal->split = "train";
  const Significance significance =
      significance_of({{"a-2", repeats("a-2", {40, 41})}, {"b-2", second}, {"c-2", third}}, {10});
  EXPECT_NEAR(*significance.runs[0].value_after.mean, 78.5, 1e-9);
  EXPECT_FALSE(significance.runs[1].value_after.mean);
  EXPECT_FALSE(significance.runs[2].value_after.mean);
  EXPECT_FALSE(significance.runs[1].value_ratio);
}

// A run that had ended before counts with its last value, and a label says so.
TEST(Significance, ARunThatHadEndedIsMarked) {
  const Significance significance =
      significance_of({{"a-2", repeats("a-2", {40, 41})}, {"b-2", repeats("b-2", {20, 45})}}, {41});
  EXPECT_EQ(significance.runs[0].ended, 1U);
  EXPECT_EQ(significance.runs[1].ended, 1U);
  EXPECT_THAT(significance_text(significance), HasSubstr("light, some ended before 41.0 s"));
  EXPECT_EQ(to_json(significance)["runs"][1]["ended"], 1);
  EXPECT_THAT(significance_text(significance_of({{"a-2", repeats("a-2", {40})}}, {41})),
              HasSubstr("light, ended before 41.0 s"));
  EXPECT_NEAR(significance.runs[1].value_ratio->ratio, std::sqrt(78.5 / 85.25), 1e-9);
}

TEST(Significance, ARepeatWithoutAValueLeavesNone) {
  const Significance significance =
      significance_of({{"a-2", repeats("a-2", {40, 41})}, {"b-2", repeats("b-2", {40, 60})}}, {9});
  EXPECT_TRUE(significance.runs[0].value_after.mean);
  EXPECT_FALSE(significance.runs[1].value_after.mean);
}

// The interval of two accuracies with some spread would reach beyond 100 % otherwise. Of a loss it may reach anywhere.
TEST(Significance, IntervalsOfAccuraciesStayWithinTheirBounds) {
  std::vector<record::Record> accuracy = repeats("a-2", {40, 41}), loss = repeats("b-2", {40, 41});
  accuracy[0].evaluations.back().metrics = {{"Prec@1", 79}};
  accuracy[1].evaluations.back().metrics = {{"Prec@1", 83}};
  for (size_t i = 0; i < loss.size(); ++i) {
    loss[i].goal->metric = "loss";
    loss[i].evaluations.back().metrics = {{"loss", 79 + 4 * static_cast<double>(i)}};
  }
  const Significance shares = significance_of({{"a-2", accuracy}}, {60});
  EXPECT_EQ(shares.runs[0].value_after.mean, 81);
  EXPECT_EQ(shares.runs[0].value_after.interval->high, 100);
  EXPECT_THAT(significance_text(shares), HasSubstr("81.00 [55.59, 100.00]"));
  EXPECT_THAT(significance_text(shares), HasSubstr("; of Prec@1 arithmetic, between 0 and 100\n"));
  EXPECT_EQ(to_json(shares)["runs"][0]["value_after"]["mean_is"], "arithmetic");
  EXPECT_EQ(to_json(shares)["runs"][0]["time_to_goal_s"]["mean_is"], "geometric");

  const Significance losses = significance_of({{"b-2", loss}}, {60});
  EXPECT_GT(losses.runs[0].value_after.interval->high, 100);
  EXPECT_EQ(to_json(losses)["runs"][0]["value_after"]["mean_is"], "geometric");
  EXPECT_THAT(significance_text(losses), testing::Not(HasSubstr("arithmetic")));
}

// A model that diverged has no accuracy to average, and whoever reads the table learns why.
TEST(Significance, ValuesThatAreNotFiniteAreNamed) {
  auto second = repeats("b-2", {40, 41, 42});
  for (record::Evaluation& evaluation : second[1].evaluations) evaluation.metrics = {{"Prec@1", NAN}};
  const Significance significance = significance_of({{"a-2", repeats("a-2", {40, 41})}, {"b-2", second}}, {50});
  EXPECT_TRUE(significance.runs[0].value_after.mean);
  EXPECT_FALSE(significance.runs[1].value_after.mean);
  EXPECT_EQ(significance.runs[1].not_finite, 1U);
  EXPECT_EQ(to_json(significance)["runs"][1]["not_finite"], 1);
  EXPECT_THAT(significance_text(significance),
              HasSubstr("b-2: after 50.0 s, Prec@1 of 1 of 3 repeats was NaN or infinite, so no mean"));
}

// Without a given time, values are taken when the fastest run had its last evaluation, so that each run has one.
TEST(Significance, TheMomentIsTheLatestThatAllReached) {
  const Significance significance = significance_of({{"a-2", repeats("a-2", {40})}, {"b-2", repeats("b-2", {20})}}, {});
  EXPECT_EQ(significance.after_s, 20);
  EXPECT_EQ(significance.runs[0].value_after.mean, 78.5);
  EXPECT_EQ(significance.runs[1].value_after.mean, 85.25);
  EXPECT_EQ(significance_of({{"a-2", repeats("a-2", {40})}}, {5}).runs[0].value_after.mean, std::nullopt);
}

TEST(Significance, Text) {
  const Significance significance =
      significance_of({{"a-2", repeats("a-2", {40, 40})}, {"b-2", repeats("b-2", {20})}}, {20});
  EXPECT_EQ(significance_text(significance),
            "Geometric mean of the repeats [its 95 % interval]; of Prec@1 arithmetic, between 0 and 100\n"
            "run  repeats  workers       time to goal            throughput                Prec@1      comm.  notes\n"
            "                                       s             samples/s          after 20.0 s  / compute\n"
            "a-2        2        2  40.0 [40.0, 40.0]  2,500 [2,500, 2,500]  78.50 [78.50, 78.50]       0.31  light\n"
            "b-2        1        2               20.0                 5,000                 85.25       0.15  light\n"
            "\n"
            "Ratio to a-2 [95 % interval of all ratios of a run together]\n"
            "run  time to goal                            throughput                            Prec@1                "
            "            differs in\n"
            "b-2          0.50  not known: needs repeats        2.00  not known: needs repeats    1.09  not known: "
            "needs repeats  -\n");
}

}  // namespace
}  // namespace mlbench::report
