#include "mlbench/spec/goal_option.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "mlbench/base/errors.h"

namespace mlbench::spec {

namespace {

bool higher_is_better_of(const std::string& metric, const TaskSpec& task) {
  return higher_is_better(metric).value_or(metric == task.goal.metric ? task.goal.higher_is_better : true);
}

const char* sign_of(bool higher_is_better) { return higher_is_better ? ">=" : "<="; }

// Throws UserError that says what is wrong with the text of --goal, and what is valid.
[[noreturn]] void refuse_goal(const std::string& text, const std::string& wrong, const TaskSpec& task) {
  std::vector<std::string> valid;
  for (const std::string& metric : task.evaluation.metrics) {
    valid.push_back(fmt::format("'{}{}VALUE'", metric, sign_of(higher_is_better_of(metric, task))));
  }
  throw UserError(fmt::format("--goal '{}': {}; expected METRIC>=VALUE or METRIC<=VALUE; valid for task {}: {}",
                              shortened(text), wrong, task.name, fmt::join(valid, ", ")));
}

}  // namespace

std::vector<Override> goal_overrides(const std::string& text, const TaskSpec& task) {
  const size_t at = std::min(text.find(">="), text.find("<="));
  if (at == std::string::npos) refuse_goal(text, "there is neither >= nor <=", task);
  const std::string metric = text.substr(0, at);
  if (std::ranges::count(task.evaluation.metrics, metric) == 0) {
    refuse_goal(text, fmt::format("the task does not evaluate '{}'", shortened(metric)), task);
  }
  const bool higher = text[at] == '>';
  if (const bool better = higher_is_better_of(metric, task); higher != better) {
    refuse_goal(text, fmt::format("of {} the {} value is better", metric, better ? "higher" : "lower"), task);
  }
  const std::string target = fmt::format("{}", parse_real(text.substr(at + 2), "value of --goal", kGoalRange));
  return {{"goal.metric", metric},
          {"goal.higher_is_better", higher ? "true" : "false"},
          {"goal.target", target},
          {"goal.light_target", target}};
}

std::string goal_text(const GoalSpec& goal, bool light) {
  return fmt::format("{}{}{}", goal.metric, sign_of(goal.higher_is_better), goal_target(goal, light));
}

}  // namespace mlbench::spec
