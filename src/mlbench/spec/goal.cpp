#include "mlbench/spec/goal.h"

namespace mlbench::spec {

double goal_target(const GoalSpec& goal, bool light) { return light ? goal.light_target : goal.target; }

bool goal_met(const GoalSpec& goal, bool light, double value) {
  const double target = goal_target(goal, light);
  return goal.higher_is_better ? value >= target : value <= target;
}

}  // namespace mlbench::spec
