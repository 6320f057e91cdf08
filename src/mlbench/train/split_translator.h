#pragma once

// The evaluation split of a task that translates, from the workload's sources to metrics and files.

#include <cstdint>
#include <filesystem>
#include <memory>

#include "mlbench/base/clock.h"
#include "mlbench/data/workload.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/spec/task.h"
#include "mlbench/train/evaluation.h"
#include "mlbench/train/translation_evaluation.h"

namespace mlbench::train {

class SplitTranslator {
 public:
  // Null where no metric of the task is of translations, and for made data, which say nothing. UserError where the data
  // have no references. What is given outlives it.
  static std::unique_ptr<SplitTranslator> make(const spec::TaskSpec& task, const dataset::PreparedDataset& data,
                                               const Clock& clock);

  // The translations of the loader's sentences, by the framework's model as it stands; kept until write().
  void add_shard(framework::Framework& framework, data::EvalLoader& loader, MetricSet& metrics);
  // Files of what all ranks translated since, in `folder` (write_translations()). Collective; rank 0 writes.
  void write(comm::Communicator& comm, const std::filesystem::path& folder, int64_t step, const MetricSet& metrics);

 private:
  SplitTranslator(const spec::TaskSpec& task, std::unique_ptr<TranslationTexts> texts, const Clock& clock);

  const SearchOptions options_;
  const std::unique_ptr<TranslationTexts> texts_;
  const Clock& clock_;
  TranslationShard shard_;
};

}  // namespace mlbench::train
