#include "mlbench/plan/lists.h"

#include "mlbench/base/choices.h"
#include "mlbench/base/or_null.h"
#include "mlbench/catalog/control/catalog.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/spec/run_spec.h"
#include "mlbench/spec/task.h"

namespace mlbench::plan {

Json list_tasks() {
  spec::RunSpec measuring;
  measuring.workers = spec::kTask0aWorkers[0];
  spec::set_collectives(measuring, spec::task_0a());
  Json rows = Json::array();
  rows.push_back({{"name", spec::kTask0a},
                  {"rules", ""},
                  {"title", spec::kTask0aTitle},
                  {"variants", Json::array()},
                  {"workers", measuring.task.task.workers},
                  {"data", nullptr},
                  {"goal", nullptr},
                  {"max_time_s", nullptr},
                  {"hash", measuring.task.hash}});
  for (const spec::TaskSource& source : spec::embedded_tasks()) {
    const spec::FrozenTask frozen = spec::parse_task(source, "", {});
    const spec::TaskSpec& task = frozen.task;
    rows.push_back({{"name", task.name},
                    {"rules", task.rules},
                    {"title", task.title},
                    {"variants", task.variants},
                    {"workers", task.workers},
                    {"data", task.data.name},
                    {"goal",
                     {{"metric", task.goal.metric},
                      {"split", task.goal.split},
                      {"target", task.goal.target},
                      {"light_target", task.goal.light_target},
                      {"higher_is_better", task.goal.higher_is_better}}},
                    {"max_time_s", positive_or_null(task.max_time_s)},
                    {"hash", frozen.hash}});
  }
  return rows;
}

Json list_executors() {
  Json rows = Json::array();
  for (const auto& row : catalog::executors()) {
    const Availability here = row.available();
    rows.push_back(
        {{"name", row.name}, {"available", here.available}, {"options", names_of(catalog::options_of(row.name))}});
    if (!here.available) rows.back()["reason"] = here.reason;
  }
  return rows;
}

}  // namespace mlbench::plan
