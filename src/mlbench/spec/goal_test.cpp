#include "mlbench/spec/goal.h"

#include <gtest/gtest.h>

#include <cmath>

namespace mlbench::spec {
namespace {

TEST(Goal, DirectionIsThatOfItsMetric) {
  EXPECT_EQ(higher_is_better("Prec@1"), true);
  EXPECT_EQ(higher_is_better("loss"), false);
  EXPECT_EQ(higher_is_better("Perplexity"), false);
  EXPECT_EQ(higher_is_better("prec@1"), std::nullopt);
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
  EXPECT_FALSE(goal_met(perplexity, true, std::nan("")));
  EXPECT_FALSE(goal_met(accuracy, true, std::nan("")));
}

TEST(Goal, TheBestIsHighestOrLowest) {
  const GoalSpec accuracy{"Prec@1", "test", 91.5, 85, true}, perplexity{"Perplexity", "test", 70, 90, false};
  EXPECT_TRUE(is_better(accuracy, 2, 1));
  EXPECT_FALSE(is_better(accuracy, 1, 2));
  EXPECT_FALSE(is_better(accuracy, 2, 2));
  EXPECT_TRUE(is_better(perplexity, 1, 2));
  EXPECT_FALSE(is_better(perplexity, 2, 1));
  EXPECT_TRUE(is_better(accuracy, -1, std::nullopt));
  EXPECT_FALSE(is_better(accuracy, std::nan(""), std::nullopt));
  EXPECT_FALSE(is_better(perplexity, std::nan(""), 1));
}

TEST(Goal, PublishedOnesHaveTheDirectionOfTheirMetrics) {
  for (const PublishedGoal& one : published_goals()) {
    EXPECT_EQ(higher_is_better(one.goal.metric), one.goal.higher_is_better) << one.task;
    EXPECT_TRUE(goal_met(one.goal, true, one.goal.target)) << one.task;
  }
}

}  // namespace
}  // namespace mlbench::spec
