#pragma once

// Translates what a task evaluates, from the workload's sources to metrics and files: the split "test", or what is held
// out of the split "train". Sentences are numbered in the order of their pairs.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/data/workload.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/spec/task.h"
#include "mlbench/train/evaluation.h"
#include "mlbench/train/translation_evaluation.h"

namespace mlbench::train {

class SplitTranslator {
 public:
  // Null where no metric of the task needs translations, and for synthetic data, which have no texts. Throws UserError
  // where the data have no references. `clock` must outlive the translator.
  static std::unique_ptr<SplitTranslator> make(const spec::TaskSpec& task, const dataset::PreparedDataset& data,
                                               const Clock& clock);

  // Translates the loader's sentences with the framework's current model, adds the results to `metrics`, and keeps the
  // translations until write().
  void add_shard(framework::Framework& framework, data::EvalLoader& loader, MetricSet& metrics);
  // Writes files of what all ranks translated in the last add_shard() to `folder` (write_translations()). Collective;
  // rank 0 writes.
  void write(comm::Communicator& comm, const std::filesystem::path& folder, int64_t step, const MetricSet& metrics);

 private:
  SplitTranslator(const spec::TaskSpec& task, std::vector<int64_t> held_out, std::unique_ptr<TranslationTexts> texts,
                  const Clock& clock);

  const SearchOptions options_;
  const std::vector<int64_t> held_out_;  // the records of the sentences, ascending; empty: all of the split "test"
  const std::unique_ptr<TranslationTexts> texts_;
  const Clock& clock_;
  TranslationShard shard_;
};

}  // namespace mlbench::train
