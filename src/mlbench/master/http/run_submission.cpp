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
#include "mlbench/spec/variables.h"

namespace mlbench::master {

namespace fs = std::filesystem;

namespace run_handlers {
namespace {

constexpr int kMostTries = 20;  // for a free name, of which others take some meanwhile

Json created(const std::vector<spec::RunSpec>& runs, const std::vector<std::string>& notes) {
  Json answer = {{"runs", Json::array()}, {"warnings", notes}};
  for (const spec::RunSpec& run : runs) answer["runs"].push_back(home::summary_of(home::first_record(run)));
  return answer;
}

PlannedRuns plan(const Services& services, const Json& request) {
  try {
    return services.hooks.plan(request);
  } catch (const AboveLimit&) {
    throw;
  } catch (const UserError& error) {
    throw HttpError(422, error.what());
  }
}

// Secrets: out of the request before anything else sees it.
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

// A request names a task of this program: what it names must be what the run was made of.
void check_has_task(const spec::RunSpec& run) {
  try {
    const spec::TaskSpec& task = run.task.task;
    if (spec::find_task(task.name, task.rules, task.variant, {}).hash == run.task.hash) return;
  } catch (const UserError&) {
    // None of that name.
  }
  throw HttpError(422,
                  fmt::format("the task of run '{}' is none of this program's: give task and task_text", run.name));
}

void add_engine(Json& request, const spec::EngineOptions& engine) {
  const Json given = spec::to_json(engine);
  for (const std::string& name : spec::names_of_given(engine)) request[name] = given.at(name);
  if (engine.cpus > 0) request["threads_per_worker"] = engine.cpus;
}

void add_communication(Json& request, const spec::Communication& communication) {
  const auto add_text = [&](const char* name, const std::string& value) {
    if (!value.empty()) request[name] = value;
  };
  add_text("algorithm", communication.algorithm);
  add_text("interface", communication.network_interface);
  add_text("wire_dtype", communication.wire_dtype);
  add_text("netem", communication.netem);
  if (communication.links > 1) request["links"] = communication.links;
  if (communication.socket_buffer_bytes > 0) request["socket_buffer"] = communication.socket_buffer_bytes;
  if (communication.check) request["check_collectives"] = true;
}

// What would make this run again, as a request, but for what its executor was told.
Json request_of(const spec::RunSpec& run) {
  if (const spec::Command* command = spec::command_of(run)) {
    return {{"workers", {run.workers}},
            {"command", command->words},
            {"work_dir", command->work_dir},
            {"env", command->environment},
            {"backend", run.backend},
            {"executor", run.executor},
            {"seed", run.seed},
            {"threads_per_worker", run.threads_per_worker},
            {"gpu", run.device == "cuda"}};
  }
  if (const spec::CollectivesSpec* measured = spec::collectives_of(run)) {
    Json request = {{"workers", {run.workers}},
                    {"backend", run.backend},
                    {"executor", run.executor},
                    {"seed", run.seed},
                    {"threads_per_worker", run.threads_per_worker},
                    {"gpu", run.device == "cuda"},
                    {"comm_timeout", run.comm_timeout_s}};
    add_communication(request, run.communication);
    if (*measured == spec::task_0a()) {
      request["task"] = spec::kTask0a;
    } else {
      request["collectives"] = spec::to_json(*measured);
    }
    return request;
  }
  Json request = {{"workers", {run.workers}},
                  {"task", run.task.task.name},
                  {"rules", run.task.task.rules},
                  {"variant", run.task.task.variant},
                  {"framework", run.framework},
                  {"backend", run.backend},
                  {"executor", run.executor},
                  {"set", Json::array()},
                  {"seed", run.seed},
                  {"threads_per_worker", run.threads_per_worker},
                  {"light", run.limits.light},
                  {"to_the_end", run.limits.to_the_end},
                  {"synthetic", run.synthetic},
                  {"fixed_batch", run.fixed_batch},
                  {"gpu", run.device == "cuda"},
                  {"comm_timeout", run.comm_timeout_s}};
  if (run.inter_op_threads > 1) request["inter_op_threads"] = run.inter_op_threads;
  for (const spec::Override& one : run.overrides) request["set"].push_back(one.key + "=" + one.value);
  if (run.data_name != run.task.task.data.name) request["data"] = run.data_name;
  if (run.limits.max_steps > 0) request["max_steps"] = run.limits.max_steps;
  if (run.limits.max_epochs > 0) request["max_epochs"] = run.limits.max_epochs;
  if (run.limits.max_time_s > 0) request["max_time"] = run.limits.max_time_s;
  add_communication(request, run.communication);
  if (run.checkpoint.every_epoch) request["checkpoint_every"] = "epoch";
  if (run.checkpoint.every_steps > 0) request["checkpoint_every"] = run.checkpoint.every_steps;
  return request;
}

}  // namespace

Response create_runs(Services& services, const Request& request) {
  Json body = json_body(request);
  const bool no_wait = take_no_wait(body);
  const auto values = take_env_values(body);
  for (int tries = 1;; ++tries) {
    PlannedRuns planned = plan(services, body);
    try {
      return json_response(201, created(submit(services, std::move(planned.runs), no_wait, values), planned.warnings));
    } catch (const home::NameTaken&) {
      // Else somebody was faster: there is another free name.
      if (body.value("next_repeat", Json(false)) != true || tries == kMostTries) throw;
    }
  }
}

// What a request would make; nothing is started, no name is taken.
Response preview_runs(Services& services, const Request& request) {
  Json body = json_body(request);
  take_no_wait(body);
  take_env_values(body);
  const PlannedRuns planned = plan(services, body);
  check_fits(services, planned.runs);
  Json answer = {{"runs", Json::array()}, {"warnings", planned.warnings}};
  for (const spec::RunSpec& run : planned.runs) {
    const spec::TaskSpec& task = run.task.task;
    Json overrides = Json::array();
    for (const spec::Override& one : run.overrides) overrides.push_back({{"key", one.key}, {"value", one.value}});
    answer["runs"].push_back({{"name", run.name},
                              {"taken", fs::exists(runs_dir(services.home) / run.name)},
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
                              {"cpus", positive_or_null(run.engine.cpus)},
                              {"seed", run.seed},
                              {"data", run.data_name},
                              {"light", run.limits.light},
                              {"overrides", std::move(overrides)}});
  }
  return json_response(200, answer);
}

// A run of the same specification: NAME-K.2, NAME-K.3, ...
Response retry(Services& services, const Call& call) {
  spec::RunSpec run = home::read_spec(find_run_folder(services, call.parameters[0]));
  const std::string base = home::without_repeat(run.name);
  for (int64_t number = 2;; ++number) {
    run.name = fmt::format("{}.{}", base, number);
    check_name(run.name, "run name");  // a long one may have no room for a number
    if (fs::exists(runs_dir(services.home) / run.name)) continue;
    try {
      return json_response(201, created(submit(services, {run}, false), {}));
    } catch (const home::NameTaken&) {
      continue;  // somebody was faster
    }
  }
}

// A run like this one, with another name and what else the body says.
Response clone(Services& services, const Call& call) {
  const spec::RunSpec run = home::read_spec(find_run_folder(services, call.parameters[0]));
  Json request = request_of(run);
  Json changes = json_body(call.request);
  if (spec::trains(run) && !changes.contains("task")) check_has_task(run);
  // Another executor is told nothing of what this one was.
  if (changes.value("executor", Json(run.executor)) == run.executor) {
    add_engine(request, run.engine);
    if (run.share_host) request["share_host"] = true;
  }
  if (!changes.contains("name")) throw HttpError(400, "name is needed: that of the new run");
  for (const auto& [key, value] : changes.items()) request[key] = value;
  const bool no_wait = take_no_wait(request);
  const auto values = take_env_values(request);
  PlannedRuns planned = plan(services, request);
  return json_response(201, created(submit(services, std::move(planned.runs), no_wait, values), planned.warnings));
}

}  // namespace run_handlers

std::vector<spec::RunSpec> submit(Services& services, std::vector<spec::RunSpec> runs, bool no_wait,
                                  const std::map<std::string, std::string>& values) {
  run_handlers::check_fits(services, runs);
  run_handlers::check_values(runs, values);
  runs = home::create_runs(services.home, std::move(runs), home::Waiting{no_wait});
  // They are there now, so no error may say that they are not.
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
