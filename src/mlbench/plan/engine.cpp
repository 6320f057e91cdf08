#include "mlbench/plan/engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/catalog/control/catalog.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/catalog/programs/programs.h"
#include "mlbench/spec/hosts.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::plan {
namespace {

// The request of a run that has no folder yet.
exec::LaunchRequest planned_request(spec::RunSpec run, const exec::Executor& executor) {
  run.run_dir = "/runs/" + run.name;
  return supervise::launch_request(run, executor, catalog::programs().front().name, 1, std::nullopt,
                                   run.oversubscribed);
}

}  // namespace

PlanEngine::PlanEngine(const spec::RunOptions& given)
    : options(spec::engine_of(given, catalog::run_options())), cpus(spec::cpus_of(given, 1).limit) {
  executor_ = catalog::make_executor(given.executor, options);
  if (cpus > 0 && !executor_->limits_cpus()) {
    throw UserError(fmt::format(
        "--threads-per-worker {}: the executor '{}' limits CPUs of containers alone; give a whole number, an "
        "--image (slurm: a .sif file), or --executor kubernetes",
        cpus, given.executor));
  }
  if (given.share_host && !executor_->facts().shares_hosts) {
    std::vector<std::string> sharing;
    for (const catalog::ExecutorRow& row : catalog::executors()) {
      if (catalog::facts_of(row.name).shares_hosts) sharing.emplace_back(row.name);
    }
    throw UserError(
        fmt::format("--share-host: the cores of other hosts are not ours to share out: the executor '{}' does not "
                    "take it; executors that take it: {}",
                    given.executor, fmt::join(sharing, ", ")));
  }
  if (options.contains("requeue") && given.checkpoint_every.empty()) {
    throw UserError("--requeue goes on from the last checkpoint: say when they are written with --checkpoint-every");
  }
  const std::string ssh_config = spec::engine_text(options, "ssh_config");
  if (!ssh_config.empty() && !std::filesystem::is_regular_file(ssh_config)) {
    throw UserError(fmt::format("--ssh-config '{}' is no file", ssh_config));
  }
}

std::optional<int64_t> PlanEngine::most_on_a_host(int64_t ranks) const {
  if (executor_->on_this_host()) return ranks;
  const auto places = spec::named_places(options, ranks);
  if (!places) return std::nullopt;
  std::map<std::string, int64_t> counts;
  int64_t most = 0;
  for (const std::string& host : *places) {
    most = std::max(most, ++counts[host]);
  }
  return most;
}

void PlanEngine::check(spec::RunSpec run) const {
  if (executor_->on_this_host() && !options.contains("image") && run.device == "cpu") return;
  executor_->describe(planned_request(std::move(run), *executor_));
}

std::string obstacle_to(const spec::RunSpec& run) {
  const auto executor = catalog::make_executor(run.executor, run.engine);
  return executor->obstacle(planned_request(run, *executor));
}

std::string cannot_start(const spec::RunSpec& run, const std::string& reason) {
  return fmt::format("{} cannot start here: {} ('mlbench doctor' says what this host has)", run.name, reason);
}

void refuse_impossible(const std::vector<spec::RunSpec>& runs) {
  for (const spec::RunSpec& run : runs) {
    if (const std::string reason = obstacle_to(run); !reason.empty()) throw UserError(cannot_start(run, reason));
  }
}

}  // namespace mlbench::plan
