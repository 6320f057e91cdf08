#pragma once

// The goal that a user sets for a run (--goal): "Prec@1>=80", in place of the task's.

#include <string>
#include <vector>

#include "mlbench/base/numbers.h"
#include "mlbench/spec/task.h"

namespace mlbench::spec {

inline constexpr Range kGoalRange{-1e9, 1e9};  // of a target, here and in task files

// The overrides of the task that --goal stands for. They open a run. Throws UserError, naming the task's metrics and
// the form, for a text of another form, a metric that the task does not evaluate, and a direction that is not the
// metric's.
std::vector<Override> goal_overrides(const std::string& text, const TaskSpec& task);

// The goal in the form of --goal: "Prec@1>=80".
std::string goal_text(const GoalSpec& goal, bool light);

}  // namespace mlbench::spec
