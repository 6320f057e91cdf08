#include "mlbench/plan/serve_defaults.h"

#include <fmt/format.h>

#include "mlbench/base/choices.h"
#include "mlbench/base/numbers.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/catalog/control/catalog.h"

namespace mlbench::plan {
namespace {

constexpr Range kLimitRange{1, 1e6}, kGpuRange{0, 1024};

void check_limit(const spec::RunSpec& run, const std::optional<int64_t>& most, double asked, const char* what,
                 const char* variable) {
  if (!most || asked <= static_cast<double>(*most)) return;
  throw AboveLimit(fmt::format("run '{}' asks for {} {}, and this master gives at most {} ({})", run.name, asked, what,
                               *most, variable));
}

}  // namespace

ServeDefaults serve_defaults(const std::function<std::optional<std::string>(const char*)>& variable) {
  const auto text = [&](const char* name) { return variable(name).value_or(""); };
  const auto limit = [&](const char* name, const Range& range) {
    const std::string value = text(name);
    return value.empty() ? std::nullopt : std::optional(parse_count(value, name, range));
  };
  ServeDefaults defaults{.executor = text(variables::kExecutor),
                         .most_workers = limit(variables::kMostWorkers, kLimitRange),
                         .most_threads = limit(variables::kMostWorkerCores, kLimitRange),
                         .most_worker_gpus = limit(variables::kMostWorkerGpus, kGpuRange),
                         .address = text(variables::kPodAddress)};
  if (!defaults.executor.empty()) {
    check_choice(fmt::format("executor in {}", variables::kExecutor), defaults.executor,
                 names_of(catalog::executors()));
  }
  return defaults;
}

void apply_defaults(const ServeDefaults& defaults, const Json& request, spec::RunOptions& options) {
  if (!request.contains("executor") && !defaults.executor.empty()) options.executor = defaults.executor;
}

void check_limits(const ServeDefaults& defaults, const std::vector<spec::RunSpec>& runs) {
  for (const spec::RunSpec& run : runs) {
    check_limit(run, defaults.most_workers, static_cast<double>(run.workers), "workers", variables::kMostWorkers);
    check_limit(run, defaults.most_threads, spec::cpus_per_worker(run), "cores for each worker",
                variables::kMostWorkerCores);
    check_limit(run, defaults.most_worker_gpus, run.device == "cuda" ? 1 : 0, "GPU for each worker",
                variables::kMostWorkerGpus);
  }
}

}  // namespace mlbench::plan
