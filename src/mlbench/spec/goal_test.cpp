#include "mlbench/spec/goal.h"

#include <gtest/gtest.h>

#include <cmath>

#include "mlbench/base/test_odd_values.h"

namespace mlbench::spec {
namespace {

TEST(Goal, DirectionIsThatOfItsMetric) {
  EXPECT_EQ(higher_is_better("Prec@1"), true);
  EXPECT_EQ(higher_is_better("loss"), false);
  EXPECT_EQ(higher_is_better("Perplexity"), false);
  EXPECT_EQ(higher_is_better("prec@1"), std::nullopt);
}

TEST(Goal, BoundsAreThoseOfSharesAndScores) {
  EXPECT_EQ(bounds_of("Prec@1")->greatest, 100);
  EXPECT_EQ(bounds_of("F1-Score")->greatest, 1);
  EXPECT_EQ(bounds_of("F1-Score")->least, 0);
  for (const char* metric : {"loss", "Perplexity", "Mean Squared Error", "words per line"}) {
    EXPECT_FALSE(bounds_of(metric)) << metric;
  }
}

TEST(Goal, IsMetAtItsThreshold) {
  const GoalSpec accuracy{"Prec@1", "test", 91.5, 85, true};
  EXPECT_TRUE(goal_met(accuracy, false, 91.5));
  EXPECT_FALSE(goal_met(accuracy, false, std::nextafter(91.5, 0)));
  EXPECT_TRUE(goal_met(accuracy, true, 85));
  EXPECT_EQ(goal_target(accuracy, true), 85);
  const GoalSpec perplexity{"Perplexity", "test", 70, 90, false};
  EXPECT_TRUE(goal_met(perplexity, false, 70));
  EXPECT_FALSE(goal_met(perplexity, false, 70.1));
  EXPECT_TRUE(goal_met(perplexity, true, 89));
}

TEST(Goal, TheBestIsHighestOrLowest) {
  const GoalSpec accuracy{"Prec@1", "test", 91.5, 85, true}, perplexity{"Perplexity", "test", 70, 90, false};
  EXPECT_TRUE(is_better(accuracy, 2, 1));
  EXPECT_FALSE(is_better(accuracy, 1, 2));
  EXPECT_FALSE(is_better(accuracy, 2, 2));
  EXPECT_TRUE(is_better(perplexity, 1, 2));
  EXPECT_FALSE(is_better(perplexity, 2, 1));
  EXPECT_TRUE(is_better(accuracy, -1, std::nullopt));
}

TEST(Goal, OddValuesMeetNoneAndAreNeverTheBest) {
  for (const Json& row : odd_values("goals")) {
    SCOPED_TRACE(row.dump());
    const std::string metric = row["metric"];
    const double target = row["target"];
    const GoalSpec goal{metric, "test", target, target, higher_is_better(metric).value()};
    for (size_t i = 0; i < row["values"].size(); ++i) {
      EXPECT_EQ(goal_met(goal, false, odd_value(row["values"][i])), row["met"][i]) << i;
    }
  }
  for (const Json& row : odd_values("best")) {
    SCOPED_TRACE(row.dump());
    const GoalSpec goal{"", "test", 0, 0, row["higher_is_better"].get<bool>()};
    std::optional<double> best;
    for (size_t i = 0; i < row["values"].size(); ++i) {
      const double value = odd_value(row["values"][i]);
      EXPECT_EQ(is_better(goal, value, best), row["best"][i]) << i;
      if (is_better(goal, value, best)) best = value;
    }
  }
}

TEST(Goal, PublishedOnesHaveTheDirectionOfTheirMetrics) {
  for (const PublishedGoal& one : published_goals()) {
    EXPECT_EQ(higher_is_better(one.goal.metric), one.goal.higher_is_better) << one.task;
    EXPECT_TRUE(goal_met(one.goal, true, one.goal.target)) << one.task;
  }
}

}  // namespace
}  // namespace mlbench::spec
