#include "mlbench/base/or_null.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/master/http/run_handlers.h"

#include <fmt/format.h>

#include <map>
#include <set>

#include "mlbench/base/errors.h"
#include "mlbench/base/log.h"
#include "mlbench/base/paths.h"
#include "mlbench/home/runs.h"
#include "mlbench/home/summary.h"
#include "mlbench/plan/engine.h"
#include "mlbench/spec/variables.h"

namespace mlbench::master {

namespace fs = std::filesystem;

namespace run_handlers {
namespace {

constexpr int kMostTries = 20;  // tries for a free name: others may take it meanwhile

Json created(const std::vector<spec::RunSpec>& runs, const std::vector<std::string>& notes) {
  Json answer = {{"runs", Json::array()}, {"warnings", notes}};
  for (const spec::RunSpec& run : runs) answer["runs"].push_back(home::summary_of(home::first_record(run)));
  return answer;
}

plan::PlannedRuns plan(const Services& services, const Json& request) {
  try {
    return services.planner.plan(request);
  } catch (const plan::AboveLimit&) {
    throw;
  } catch (const UserError& error) {
    throw HttpError(422, error.what());
  }
}

// Takes the values of variables, which may be secrets, out of the request before anything else sees it.
std::map<std::string, std::string> take_env_values(Json& request) {
  std::map<std::string, std::string> values;
  const auto found = request.find("env_values");
  if (found == request.end()) return values;
  if (!found->is_object()) throw HttpError(400, "env_values is no object of texts");
  for (const auto& [name, value] : found->items()) {
    if (!value.is_string()) throw HttpError(400, "env_values is no object of texts");
    values[name] = value.get<std::string>();
    if (values[name].find('\0') != std::string::npos) throw HttpError(400, "a value of env_values holds a zero byte");
  }
  request.erase(found);
  return values;
}

void check_values(const std::vector<spec::RunSpec>& runs, const std::map<std::string, std::string>& values) {
  std::set<std::string> needed;
  for (const spec::RunSpec& run : runs) {
    for (std::string& name : spec::names_to_give(run)) needed.insert(std::move(name));
  }
  for (const std::string& name : needed) {
    if (values.contains(name)) continue;
    throw HttpError(422,
                    fmt::format("the run needs the value of {}, which no run stores: give it in env_values", name));
  }
  for (const auto& [name, value] : values) {
    if (!needed.contains(name)) {
      throw HttpError(422, fmt::format("env_values has {}, which env does not name (as NAME alone)", name));
    }
  }
}

bool take_no_wait(Json& request) {
  const auto found = request.find("no_wait");
  if (found == request.end()) return false;
  if (!found->is_boolean()) throw HttpError(400, "no_wait is neither true nor false");
  const bool no_wait = found->get<bool>();
  request.erase(found);
  return no_wait;
}

void check_fits(const Services& services, const std::vector<spec::RunSpec>& runs) {
  for (const spec::RunSpec& run : runs) {
    if (const auto reason = refusal(services.scheduler.cluster(), run.workers)) throw HttpError(422, *reason);
  }
}

void check_obstacles(const Services& services, const std::vector<spec::RunSpec>& runs) {
  for (const spec::RunSpec& run : runs) {
    const std::string reason = services.planner.obstacle(run);
    if (!reason.empty()) throw HttpError(422, plan::cannot_start(run, reason));
  }
}

// A request names a task of this program, which must be the task that the run was made of.
void check_has_task(const spec::RunSpec& run) {
  try {
    const spec::TaskSpec& task = run.task.task;
    if (spec::find_task(task.name, task.rules, task.variant, {}).hash == run.task.hash) return;
  } catch (const UserError&) {
    // There is no task of that name.
  }
  throw HttpError(422,
                  fmt::format("the task of run '{}' is none of this program's: give task and task_text", run.name));
}

// Removes from the request what belongs to the run's executor, for a run with another one: its hosts may have data
// elsewhere.
void forget_executor(Json& request, const spec::RunSpec& run) {
  for (const auto& [name, value] : run.engine.items()) request.erase(name);
  if (run.cpus > 0) request["threads_per_worker"] = run.threads_per_worker;
  for (const char* name : {"share_host", "data_dir"}) request.erase(name);
}

}  // namespace

Response create_runs(Services& services, const Request& request) {
  Json body = json_body(request);
  const bool no_wait = take_no_wait(body);
  const auto values = take_env_values(body);
  for (int tries = 1;; ++tries) {
    plan::PlannedRuns planned = plan(services, body);
    try {
      return json_response(201, created(submit(services, std::move(planned.runs), no_wait, values), planned.warnings));
    } catch (const home::NameTaken&) {
      // Another process took the name: the next try finds another free name.
      if (body.value("next_repeat", Json(false)) != true || tries == kMostTries) throw;
    }
  }
}

// Answers the runs that a request would make. Nothing is started, and no name is taken.
Response preview_runs(Services& services, const Request& request) {
  Json body = json_body(request);
  take_no_wait(body);
  take_env_values(body);
  plan::PlannedRuns planned = plan(services, body);
  check_fits(services, planned.runs);
  for (const spec::RunSpec& run : planned.runs) {
    const std::string reason = services.planner.obstacle(run);
    if (!reason.empty()) planned.warnings.push_back(plan::cannot_start(run, reason));
  }
  Json answer = {{"runs", Json::array()}, {"warnings", planned.warnings}};
  for (const spec::RunSpec& run : planned.runs) {
    const spec::TaskSpec& task = run.task.task;
    Json overrides = Json::array();
    for (const spec::Override& one : run.overrides) overrides.push_back({{"key", one.key}, {"value", one.value}});
    answer["runs"].push_back({{"name", run.name},
                              {"taken", home::is_taken(services.home, run.name)},
                              {"task", task.name},
                              {"rules", task.rules},
                              {"variant", task.variant},
                              {"division", run.division},
                              {"framework", run.framework},
                              {"backend", run.backend},
                              {"executor", run.executor},
                              {"device", run.device},
                              {"workers", run.workers},
                              {"threads_per_worker", run.threads_per_worker},
                              {"cpus", positive_or_null(run.cpus)},
                              {"seed", run.seed},
                              {"data", run.data_name},
                              {"light", run.limits.light},
                              {"overrides", std::move(overrides)}});
  }
  return json_response(200, answer);
}

// Makes a run of the same specification, named NAME-K.2, NAME-K.3, ... The frozen specification is copied, which is
// exact: to plan the request anew could take a task file that was edited since, or defaults of a newer program.
Response retry(Services& services, const Call& call) {
  spec::RunSpec run = home::read_spec(find_run_folder(services, call.parameters[0]));
  const std::string base = home::without_repeat(run.name);
  for (int64_t number = 2;; ++number) {
    run.name = fmt::format("{}.{}", base, number);
    check_name(run.name, "run name");  // a long name may have no room for a number
    if (fs::exists(runs_dir(services.home) / run.name)) continue;
    try {
      return json_response(201, created(submit(services, {run}, false), {}));
    } catch (const home::NameTaken&) {
      continue;  // another process took the name
    }
  }
}

// Makes a run like this one, with another name and with what else the body says.
Response clone(Services& services, const Call& call) {
  const spec::RunSpec run = home::read_spec(find_run_folder(services, call.parameters[0]));
  if (run.asked.is_null()) {
    throw HttpError(422, fmt::format("run '{}' does not hold the request that made it: ask for the new one with all of "
                                     "its options",
                                     run.name));
  }
  Json request = run.asked;
  const Json changes = json_body(call.request);
  if (!changes.contains("name")) throw HttpError(400, "name is needed: that of the new run");
  if (changes.contains("task")) {
    request.erase("task_text");
  } else if (spec::trains(run) && !request.contains("task_text")) {
    check_has_task(run);
  }
  if (changes.value("executor", Json(run.executor)) != run.executor) forget_executor(request, run);
  for (const auto& [key, value] : changes.items()) request[key] = value;
  const bool no_wait = take_no_wait(request);
  const auto values = take_env_values(request);
  plan::PlannedRuns planned = plan(services, request);
  return json_response(201, created(submit(services, std::move(planned.runs), no_wait, values), planned.warnings));
}

}  // namespace run_handlers

std::vector<spec::RunSpec> submit(Services& services, std::vector<spec::RunSpec> runs, bool no_wait,
                                  const std::map<std::string, std::string>& values) {
  run_handlers::check_fits(services, runs);
  run_handlers::check_values(runs, values);
  run_handlers::check_obstacles(services, runs);
  runs = home::create_runs(services.home, std::move(runs), home::Waiting{no_wait});
  // The runs exist now, so no error may say that they do not.
  for (const spec::RunSpec& run : runs) {
    services.scheduler.submit(run, no_wait, values);
    try {
      services.watcher.refresh(run.name);
    } catch (const std::exception& error) {
      spdlog::warn("run {} is listed a little later: {}", run.name, error.what());
    }
  }
  return runs;
}

}  // namespace mlbench::master
