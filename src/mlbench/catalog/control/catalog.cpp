#include "mlbench/catalog/control/catalog.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/exec/kubernetes/kubernetes.h"
#include "mlbench/exec/local/local.h"
#include "mlbench/exec/mpirun/mpirun.h"
#include "mlbench/exec/slurm/slurm.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::catalog {
namespace {

bool takes(const ExecutorRow& row, const std::string& option) {
  return std::ranges::find(row.options, option) != row.options.end();
}

std::string label_of_option(const std::string& name) {
  const auto rows = spec::run_options();
  const auto row = std::ranges::find(rows, name, &spec::RunOption::name);
  return row == rows.end() ? name : spec::label_of(*row);
}

void check_options(const ExecutorRow& row, const spec::EngineOptions& engine) {
  for (const std::string& option : spec::names_of_given(engine)) {
    if (takes(row, option)) continue;
    std::vector<std::string> others;
    for (const ExecutorRow& other : executors()) {
      if (takes(other, option)) others.emplace_back(other.name);
    }
    throw UserError(fmt::format("{}: the executor '{}' {}; executors that take it: {}", label_of_option(option),
                                row.name,
                                !takes(row, "ranks_per_host") ? "starts ranks on this host alone" : "does not take it",
                                others.empty() ? "none" : fmt::format("{}", fmt::join(others, ", "))));
  }
}

void check_cpus(const exec::Executor& executor, const spec::EngineOptions& engine) {
  if (engine.cpus == 0 || executor.limits_cpus()) return;
  throw UserError(
      fmt::format("--threads-per-worker {}: the executor '{}' limits CPUs of containers alone; give a whole number, an "
                  "--image (slurm: a .sif file), or --executor kubernetes",
                  engine.cpus, executor.name()));
}

}  // namespace

const std::vector<ExecutorRow>& executors() {
  static const std::vector<ExecutorRow> rows = {
      {"local", exec::local::available, exec::local::make, {"image"}},
      {"mpirun",
       exec::mpirun::available,
       exec::mpirun::make,
       {"hosts", "ranks_per_host", "ssh_config", "scratch", "image", "requeue"}},
      {"slurm",
       exec::slurm::available,
       exec::slurm::make,
       {"ranks_per_host", "slurm", "setup", "scratch", "image", "requeue"}},
      {"kubernetes",
       exec::kubernetes::available,
       exec::kubernetes::make,
       {"ranks_per_host", "image", "kube_context", "namespace", "memory", "data_volume", "queue", "host_network",
        "pod_overlay", "requeue"}},
  };
  return rows;
}

std::unique_ptr<exec::Executor> make_executor(const std::string& name, const spec::EngineOptions& engine) {
  const ExecutorRow& row = row_named(executors(), "executor", name);
  check_options(row, engine);
  auto executor = row.make(engine);
  check_cpus(*executor, engine);
  return executor;
}

bool in_images(const std::string& name) {
  return std::ranges::any_of(executors(),
                             [&](const ExecutorRow& row) { return row.name == name && row.make({})->in_images(); });
}

bool on_this_host(const std::string& name) {
  return std::ranges::any_of(executors(),
                             [&](const ExecutorRow& row) { return row.name == name && row.make({})->on_this_host(); });
}

}  // namespace mlbench::catalog
