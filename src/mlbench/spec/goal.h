#pragma once

// The goal of a task: a value of one metric on one split. All code that judges values by a goal uses these functions.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/spec/split.h"

namespace mlbench::spec {

struct GoalSpec {
  std::string metric;              // e.g. "Prec@1"
  std::string split = kTestSplit;  // kTestSplit | kTrainSplit
  double target = 0;
  double light_target = 0;
  bool higher_is_better = true;  // must agree with higher_is_better(metric) where that is known
  double target_loss = 0;        // training loss at which charts draw a line; 0: none. Not a part of the task's hash
  bool operator==(const GoalSpec&) const = default;
};

// Whether higher values of a metric are better; empty for metrics that are not known here.
std::optional<bool> higher_is_better(std::string_view metric);

// The least and the greatest value that a metric can have.
struct MetricBounds {
  double least = 0, greatest = 0;
};
// Empty for metrics without a greatest value, and for those that are not known here.
std::optional<MetricBounds> bounds_of(std::string_view metric);

double goal_target(const GoalSpec& goal, bool light);
// Whether `value` meets the light or the full goal. A value that is not finite meets none.
bool goal_met(const GoalSpec& goal, bool light, double value);
// Whether `value` is better than the best so far. A finite value is better than none; one that is not finite never is.
bool is_better(const GoalSpec& goal, double value, std::optional<double> best);

// The goals of MLBench's tasks, by which archives of its dashboard are judged. That of 3a is the one after 2020-12; the
// target was 50 before.
struct PublishedGoal {
  std::string task;
  GoalSpec goal;
};
const std::vector<PublishedGoal>& published_goals();

}  // namespace mlbench::spec
