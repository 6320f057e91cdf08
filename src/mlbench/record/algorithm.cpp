#include <algorithm>

#include "mlbench/record/record.h"
#include "mlbench/spec/algorithm.h"

namespace mlbench::record {

Algorithm algorithm_of(const spec::FrozenTask& task, const std::vector<spec::Override>& overrides) {
  const spec::Algorithm chosen = spec::algorithm_of(task.task.optimizer);
  Algorithm algorithm;
  algorithm.rule = chosen.rule;
  algorithm.coder = chosen.coder;
  algorithm.pattern = chosen.pattern;
  algorithm.options = chosen.options;
  algorithm.lr = task.task.optimizer.lr;
  algorithm.schedule = task.canonical.value("schedule", Json::object());
  algorithm.schedule.erase("tuned_trials");
  const bool other = std::ranges::any_of(overrides, spec::is_of_algorithm);
  const bool given = std::ranges::any_of(overrides, spec::is_of_rates);
  algorithm.rates = given ? "given" : other ? "task_for_another" : "task";
  if (task.task.schedule.tuned_trials > 0) {
    algorithm.rates = "tuned";
    algorithm.tuned_trials = task.task.schedule.tuned_trials;
  }
  return algorithm;
}

}  // namespace mlbench::record
