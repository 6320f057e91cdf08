#pragma once

// The goal of a task: a value of one metric on one split. Whatever judges values by it does so with what stands here.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlbench::spec {

struct GoalSpec {
  std::string metric;          // e.g. "Prec@1"
  std::string split = "test";  // test | train
  double target = 0;
  double light_target = 0;
  bool higher_is_better = true;  // of the metric: a task that says otherwise is an error
  double target_loss = 0;  // training loss that charts draw a line at; 0: none. It decides nothing: outside of the hash
  bool operator==(const GoalSpec&) const = default;
};

// Whether more of a metric is better; empty for metrics that are not known here.
std::optional<bool> higher_is_better(std::string_view metric);

double goal_target(const GoalSpec& goal, bool light);
// Whether `value` meets the goal (light or full): what is not finite meets none.
bool goal_met(const GoalSpec& goal, bool light, double value);
// Whether `value` is better than the best so far: any finite one is better than none, what is not finite never is.
bool is_better(const GoalSpec& goal, double value, std::optional<double> best);

// The goals of MLBench's tasks, by which archives of its dashboard are judged. 3a's is later than 2020-12: it was 50
// before.
struct PublishedGoal {
  std::string task;
  GoalSpec goal;
};
const std::vector<PublishedGoal>& published_goals();

}  // namespace mlbench::spec
