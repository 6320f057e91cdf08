#include "mlbench/plan/planner.h"

#include <fmt/format.h>

#include <utility>

#include "mlbench/base/or_null.h"
#include "mlbench/catalog/control/catalog.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/objects/object_store.h"
#include "mlbench/plan/choices.h"
#include "mlbench/plan/engine.h"
#include "mlbench/plan/plan.h"
#include "mlbench/spec/hosts.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::plan {

Planner::Planner(PlannerOptions options)
    : options_(std::move(options)),
      nodes_([](const std::string& executor,
                const Json& engine) { return catalog::make_executor(executor, engine)->nodes(); },
             clock_) {}

PlannedRuns Planner::plan(const Json& request) {
  spec::RunOptions options = spec::run_options_from_json(request, catalog::run_options());
  apply_defaults(options_.defaults, request, options);
  // A request names no paths of this machine but the folder of data.
  if (options.task.ends_with(".toml") && options.task_text.empty()) {
    throw UserError("a task file comes with its content in task_text");
  }
  const bool custom = !options.command.empty();
  const bool other_files = catalog::facts_of(options.executor).in_images;
  const bool in_image = other_files || !spec::engine_text(options.engine, "image").empty();
  if (custom && options.work_dir.empty() && !in_image) options.work_dir = options_.home;
  if (options.data_dir.empty()) {
    if (spec::asks_for_training(options) && !other_files) options.data_dir = options_.data_dir;
  } else if (!objects::is_store(options.data_dir) && !std::filesystem::path(options.data_dir).is_absolute()) {
    throw UserError(fmt::format("data_dir '{}' is neither an absolute path nor s3://BUCKET/PREFIX", options.data_dir));
  }
  const PlanFacts facts = custom ? gather_facts(options_.home) : gather_facts(options_.worker, options_.home);
  PlannedRuns planned;
  planned.runs = plan_runs(options, facts);
  check_limits(options_.defaults, planned.runs);
  planned.warnings =
      plan_warnings(planned.runs, facts.cores, bfloat16_speed_of(planned.runs, options_.worker, options_.home));
  return planned;
}

Json Planner::tasks() { return list_tasks(); }

Json Planner::catalog() {
  const auto found = supervise::worker_catalog(options_.worker, options_.home);
  if (!found.catalog) throw UserError(found.reason);
  Json catalog = *found.catalog;
  const std::string usual = executor();
  catalog["executors"] = list_executors();
  for (Json& row : catalog["executors"]) {
    row["usual"] = row["name"] == usual;
    row["gpus"] = or_null(offer_of(row.at("name").get<std::string>()).gpus);
  }
  const bool gpus = offer_of(usual).gpus != 0;
  catalog["devices"] = {
      {{"name", "cpu"}, {"available", true}, {"reason", ""}},
      {{"name", "cuda"}, {"available", gpus}, {"reason", gpus ? "" : "no host of its executor has a GPU to give"}}};
  return catalog;
}

std::string Planner::executor() {
  return options_.defaults.executor.empty() ? spec::RunOptions().executor : options_.defaults.executor;
}

ClusterOffer Planner::offer() {
  std::string usual = executor();
  exec::HostsOffer hosts = offer_of(usual);
  return {std::move(usual), hosts};
}

std::string Planner::obstacle(const spec::RunSpec& run) { return obstacle_to(run); }

exec::ClusterNodes Planner::nodes(const std::string& executor, const Json& engine) {
  return nodes_.of(executor, engine);
}

// What the hosts of an executor have for ranks; empty where it is not available here, or its engine does not say.
exec::HostsOffer Planner::offer_of(const std::string& executor) {
  for (const catalog::ExecutorRow& row : catalog::executors()) {
    if (row.name == executor && row.available().available) return exec::offer_of(nodes_.of(executor, Json::object()));
  }
  return {};
}

}  // namespace mlbench::plan
