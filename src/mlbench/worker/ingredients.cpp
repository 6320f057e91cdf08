#include "mlbench/worker/ingredients.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/log.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/text.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/prepare.h"
#include "mlbench/dataset/synthetic.h"
#include "mlbench/framework/emulated.h"
#include "mlbench/models/model.h"
#include "mlbench/spec/split.h"

namespace mlbench::worker {

namespace {

// The cores that the supervisor keeps for the run; empty where it keeps none.
std::vector<int> kept_cores() {
  const auto kept = environment_variable(variables::kCores);
  if (!kept) return {};
  const Json cores = try_parse_json(*kept, inputs::kCoreList).value_or(nullptr);
  if (!cores.is_array() || !std::ranges::all_of(cores, [](const Json& core) { return core.is_number_unsigned(); })) {
    throw UserError(fmt::format("{} is '{}', but lists the numbers of cores, as in [0,1]", variables::kCores, *kept));
  }
  return cores.get<std::vector<int>>();
}

// One core for each computing thread of this rank; empty where too few are kept for all ranks.
std::vector<int> cores_of(const spec::RunSpec& run, int local_rank) {
  const std::vector<int> cores = kept_cores();
  if (std::ssize(cores) < run.workers * run.threads_per_worker) return {};
  const auto first = cores.begin() + local_rank * run.threads_per_worker;
  return {first, first + run.threads_per_worker};
}

}  // namespace

dataset::PreparedDataset prepare_data(const spec::RunSpec& run) {
  const auto& description = dataset::find_description(run.data_name);
  const dataset::Progress log = [](const std::string& line) { spdlog::info("{}", line); };
  if (run.synthetic) return dataset::make_synthetic(description, run.cache_dir, log);
  return dataset::prepare(description, run.data_dirs, run.cache_dir, log);
}

std::unique_ptr<framework::Framework> make_framework(const catalog::WorkerProgram& program, const spec::RunSpec& run,
                                                     int rank, int local_rank, framework::MakeMemory gradient_memory) {
  framework::FrameworkOptions options;
  options.model = models::describe_model(run.task.task);
  options.threads = static_cast<int>(run.threads_per_worker);
  options.inter_op_threads = static_cast<int>(run.inter_op_threads);
  options.cores = cores_of(run, local_rank);
  options.seed = run.seed;
  options.rank = rank;
  options.local_rank = local_rank;
  options.precision = run.precision;
  options.device = run.device;
  options.convolution = run.convolution;
  options.sparse_rows = dataset::is_sparse(dataset::find_description(run.data_name));
  options.gradient_memory = std::move(gradient_memory);
  auto framework = catalog::make_framework(program, run.framework, options);
  if (run.emulated_step_s == 0) return framework;
  static const SystemClock kClock;
  const std::chrono::duration<double> step(run.emulated_step_s);
  return framework::emulate(std::move(framework),
                            {.step = std::chrono::duration_cast<Nanoseconds>(step), .clock = kClock});
}

std::vector<int> cores_beside_computing(const spec::RunSpec& run, int local_rank) {
  std::vector<int> own = cores_of(run, local_rank);
  if (own.empty()) return {};
  const std::vector<int> kept = kept_cores();
  const auto computing = run.workers * run.threads_per_worker;
  return std::ssize(kept) > computing ? std::vector<int>(kept.begin() + computing, kept.end()) : own;
}

int decoding_threads(const spec::RunSpec& run, const dataset::PreparedDataset& data, int local_size) {
  if (run.decoding_threads > 0) return static_cast<int>(run.decoding_threads);
  if (!data.split(spec::kTrainSplit).encoded()) return 0;
  const std::vector<int> kept = kept_cores();
  const int cores = kept.empty() ? available_cores() : static_cast<int>(kept.size());
  return std::max(cores / local_size - static_cast<int>(run.threads_per_worker), 1);
}

optim::CommunicationPlace place_of_communication(const spec::RunSpec& run, int local_rank, int local_size,
                                                 bool backend_spins) {
  optim::CommunicationPlace place;
  place.cores = cores_beside_computing(run, local_rank);
  const bool asked_for = std::ranges::any_of(
      run.overrides, [](const spec::Override& setting) { return setting.key == "optimizer.overlap"; });
  const int64_t computing = local_size * run.threads_per_worker;
  const int cores = available_cores();
  if (backend_spins && !asked_for && computing + local_size > cores) {
    place.crowded =
        fmt::format("{} spins while it waits, and {} threads that compute and {} that communicate are more than {}",
                    run.backend, computing, local_size, counted(cores, "core"));
  }
  return place;
}

}  // namespace mlbench::worker
