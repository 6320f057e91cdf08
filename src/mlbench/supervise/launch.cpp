#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "mlbench/base/environment.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/text.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/catalog/programs/programs.h"
#include "mlbench/spec/declaration.h"
#include "mlbench/spec/hosts.h"
#include "mlbench/spec/variables.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::supervise {
namespace {

// Fills in {run_id}, {backend} and, where all ranks are on this host, {hosts} (one per rank) in a custom command. The
// executor fills in {rank}.
std::vector<std::string> filled_in(std::vector<std::string> command, const spec::RunSpec& run,
                                   const exec::Executor& executor) {
  fill_in(command, "{run_id}", std::to_string(run.id));
  if (executor.on_this_host()) {
    const std::vector<std::string> hosts(static_cast<size_t>(run.workers), "127.0.0.1");
    fill_in(command, "{hosts}", fmt::format("{}", fmt::join(hosts, ",")));
  }
  fill_in(command, "{backend}", run.backend);
  return command;
}

// The goal that the run's command declares, for its script.
std::string declared_goal(const spec::RunSpec& run) {
  const spec::GoalSpec& goal = run.task.task.goal;
  return Json{{"metric", goal.metric},
              {"split", goal.split},
              {"target", spec::goal_target(goal, run.limits.light)},
              {"higher_is_better", goal.higher_is_better}}
      .dump();
}

}  // namespace

std::optional<std::vector<std::string>> named_places(const spec::RunSpec& run) {
  return spec::named_places(run.engine, run.workers);
}

std::vector<std::string> hosts_needed(const spec::RunSpec& run) {
  const auto places = named_places(run);
  if (!places && catalog::facts_of(run.executor).on_this_host) return {kThisHost};
  if (!places) return {};
  std::vector<std::string> hosts;
  for (const std::string& place : *places) {
    const std::string name = exec::is_this_host(place) ? kThisHost : place;
    if (std::ranges::find(hosts, name) == hosts.end()) hosts.push_back(name);
  }
  return hosts;
}

bool names_this_host(const spec::RunSpec& run) {
  const auto places = named_places(run);
  return places && std::ranges::any_of(*places, exec::is_this_host);
}

std::filesystem::path guard_path() { return program_path().parent_path() / "mlbench-guard"; }

exec::LaunchRequest launch_request(const spec::RunSpec& run, const exec::Executor& executor,
                                   const std::filesystem::path& worker, int64_t segment,
                                   std::optional<int64_t> resume_step, bool oversubscribed) {
  exec::LaunchRequest request;
  request.run_name = run.name;
  request.run_id = run.id;
  request.run_identity = run.identity;
  request.backend = run.backend;
  request.by_mpirun = catalog::backend_facts(run.backend).needs_mpirun;
  request.threads = static_cast<int>(run.threads_per_worker);
  request.cpus = run.cpus;
  request.gpu = run.device == "cuda";
  request.share_host = run.share_host;
  request.network_interface = run.communication.network_interface;
  request.in_image = executor.in_images() || !spec::engine_text(run.engine, "image").empty();
  request.guard = guard_path();
  if (const spec::Command* command = spec::command_of(run)) {
    request.command = filled_in(command->words, run, executor);
    request.rank_words = true;
    request.working_directory = command->work_dir;
    if (!command->work_dir.empty()) request.folders.push_back({command->work_dir, true});
    for (const std::string& text : command->environment) {
      const spec::Variable variable = spec::parse_variable(text);
      if (variable.from == spec::ValueFrom::kText) request.environment[variable.name] = variable.value;
    }
    request.environment[variables::kRunDir] = run.run_dir;
    request.environment[variables::kRunId] = std::to_string(run.id);
    if (spec::declares_task(run)) request.environment[variables::kGoal] = declared_goal(run);
  } else {
    // In an image, the worker is the image's own, which its PATH finds.
    const catalog::ProgramRow& program = catalog::program_with(run.framework);
    request.command = {request.in_image ? std::string(program.name) : catalog::path_of(program, worker).string(),
                       "--run-dir", run.run_dir, "--segment", std::to_string(segment)};
    request.modules = program.modules;
    request.folders.push_back({run.cache_dir, true});
    for (const std::string& folder : run.data_dirs) {
      std::error_code ignored;
      const auto same = [&](const exec::SharedFolder& one) { return one.path == folder; };
      if (!std::filesystem::is_directory(folder, ignored) || std::ranges::any_of(request.folders, same)) continue;
      request.folders.push_back({folder, false});
    }
  }
  if (resume_step) {
    request.command.emplace_back("--resume-step");
    request.command.push_back(std::to_string(*resume_step));
  }
  request.workers = static_cast<int>(run.workers);
  request.environment["OMP_NUM_THREADS"] = std::to_string(run.threads_per_worker);
  // Only a run that has all cores of this host to itself may bind threads to cores; a limit of CPUs gives no cores of
  // its own.
  if (!oversubscribed && run.cpus == 0 && spec::uses_worker(run) && executor.on_this_host()) {
    request.environment[variables::kCores] = Json(allowed_cores()).dump();
  }
  if (oversubscribed) {
    // Threads that spin while they wait would take the cores from those that work.
    request.environment["OMP_WAIT_POLICY"] = "passive";
    request.environment[variables::kOversubscribed] = "1";
  }
  request.log_dir = logs_dir(run.run_dir);
  request.segment = segment;
  return request;
}

}  // namespace mlbench::supervise
