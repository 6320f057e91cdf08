#include "mlbench/worker/ingredients.h"

#include <algorithm>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/log.h"
#include "mlbench/base/paths.h"
#include "mlbench/catalog/worker/catalog.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/prepare.h"
#include "mlbench/dataset/synthetic.h"
#include "mlbench/models/model.h"

namespace mlbench::worker {

namespace {

// One for each thread of this rank, of those that the supervisor keeps for the run; empty where it keeps none or too
// few.
std::vector<int> cores_of(const spec::RunSpec& run, int local_rank) {
  const auto kept = environment_variable("MLBENCH_CORES");
  if (!kept) return {};
  const Json cores = try_parse_json(*kept, inputs::kCoreList).value_or(nullptr);
  if (!cores.is_array() || !std::ranges::all_of(cores, [](const Json& core) { return core.is_number_unsigned(); })) {
    throw UserError("MLBENCH_CORES is '" + *kept + "', but lists the numbers of cores, as in [0,1]");
  }
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

std::unique_ptr<framework::Framework> make_framework(const spec::RunSpec& run, int rank, int local_rank) {
  framework::FrameworkOptions options;
  options.model = models::describe_model(run.task.task);
  options.loss = run.task.task.loss;
  options.threads = static_cast<int>(run.threads_per_worker);
  options.cores = cores_of(run, local_rank);
  options.seed = run.seed;
  options.rank = rank;
  options.local_rank = local_rank;
  options.precision = run.precision;
  options.device = run.device;
  return catalog::make_framework(run.framework, options);
}

}  // namespace mlbench::worker
