#pragma once

// What a task makes of a prepared data set: who takes which samples in which step, and the loaders of their batches.

#include <cstdint>
#include <functional>
#include <memory>

#include "mlbench/data/eval_loader.h"
#include "mlbench/data/plan.h"
#include "mlbench/data/train_loader.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/spec/task.h"

namespace mlbench::data {

class Workload {
 public:
  virtual ~Workload() = default;
  virtual const BatchPlan& plan() const = 0;
  // Loads the split "train", without what is held out of it.
  virtual std::unique_ptr<TrainLoader> make_train_loader(const LoaderOptions& options) const = 0;
  // Loads all of the split "test", or what is held out of the split "train", divided among the ranks.
  virtual std::unique_ptr<EvalLoader> make_eval_loader(const EvalShard& shard) const = 0;
};

using MakeEvalLoader = std::function<std::unique_ptr<EvalLoader>(const EvalShard& shard)>;
// Trains from one source by one plan, which may ask the source for lengths; evaluates with the loader that the function
// makes.
std::unique_ptr<Workload> make_planned_workload(std::shared_ptr<const SampleSource> source,
                                                std::shared_ptr<const BatchPlan> plan, MakeEvalLoader make_eval_loader);

// The workload that task.data.batching names. `data` must outlive the workload and its loaders. Throws UserError where
// task and data do not fit.
std::unique_ptr<Workload> make_workload(const spec::TaskSpec& task, const dataset::PreparedDataset& data,
                                        int64_t workers, uint64_t seed);

}  // namespace mlbench::data
