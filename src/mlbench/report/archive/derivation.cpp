#include "mlbench/report/archive/derivation.h"

#include <algorithm>

#include "mlbench/base/or_null.h"
#include "mlbench/record/legacy_names.h"
#include "mlbench/record/record.h"
#include "mlbench/report/archive/zip.h"
#include "mlbench/spec/split.h"

namespace mlbench::report {

std::string series_of(const spec::GoalSpec& goal) {
  return record::legacy_name_of(
             {goal.split == spec::kTrainSplit ? spec::kTrainSplit : spec::kTestSplit, goal.metric, record::kAllRanks})
      .name;
}

Outcome outcome_of(const spec::GoalSpec& goal, const std::vector<double>& values, size_t judged) {
  Outcome outcome;
  for (size_t i = 0; i < values.size(); ++i) {
    if (i < judged && spec::goal_met(goal, false, values[i])) return {i, values[i]};
    if (spec::is_better(goal, values[i], outcome.value)) outcome.value = values[i];
  }
  return outcome;
}

std::string official_result(const std::optional<spec::GoalSpec>& goal, bool reached, double total_s,
                            const Json& steps_s) {
  record::Record record;
  record.clocks.train_legacy_s = total_s;
  for (const auto& [kind, seconds] : steps_s.items()) record.steps_s.emplace_back(kind, seconds.get<double>());
  if (goal) {
    record.goal.emplace();
    record.goal->metric = goal->metric;
    record.goal->split = goal->split;
    record.goal->target = goal->target;
    record.goal->reached = reached;
  }
  return official_result(record);
}

Json split_json(double total_s, const Json& steps_s, bool total_has_batch_load, std::optional<double> train_s) {
  const auto sum = [&](std::initializer_list<const char*> kinds) {
    double seconds = 0;
    for (const char* kind : kinds) seconds += steps_s.value(kind, 0.0);
    return seconds;
  };
  const double compute = sum({"fwd_pass", "comp_loss", "backprop", "opt_step"});
  const double communication = sum({"agg"}), metrics = sum({"comp_metrics"}), preprocessing = sum({"batch_load"});
  const double parts = compute + communication + metrics + (total_has_batch_load ? preprocessing : 0);
  return {{"total", total_s},
          {"compute", compute},
          {"communication", communication},
          {"metrics", metrics},
          {"preprocessing", preprocessing},
          {"other", std::max(0.0, total_s - parts)},
          {"train", or_null(train_s)}};
}

Json goal_json(const std::optional<spec::GoalSpec>& goal, const Outcome& outcome) {
  if (!goal) return nullptr;
  return {{"metric", goal->metric},
          {"split", goal->split},
          {"target", goal->target},
          {"higher_is_better", goal->higher_is_better},
          {"reached", outcome.met.has_value()},
          {"value", or_null(outcome.value)},
          {"evaluation", outcome.met ? Json(*outcome.met + 1) : Json(nullptr)}};
}

}  // namespace mlbench::report
