#pragma once

// Translates the evaluation split of a task with a table [decoding], beside the pass that makes its other metrics.

#include <memory>

#include "mlbench/base/clock.h"
#include "mlbench/data/eval_loader.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/framework/framework.h"
#include "mlbench/spec/task.h"
#include "mlbench/train/translation_evaluation.h"

namespace mlbench::train {

class SplitTranslator {
 public:
  // `clock` outlives the translator.
  SplitTranslator(const spec::DecodingSpec& decoding, std::unique_ptr<TranslationTexts> texts, const Clock& clock);

  // The loader's part of the split, by the model as it stands; its texts go to `metrics`.
  void add_shard(framework::Framework& framework, data::EvalLoader& loader, MetricSet& metrics);
  // All that was translated since the last call. Collective.
  TranslatedSplit gather(comm::Communicator& comm);

  const spec::DecodingSpec& decoding() const { return options_.decoding; }

 private:
  SearchOptions options_;
  std::unique_ptr<TranslationTexts> texts_;
  const Clock& clock_;
  TranslationShard shard_;
};

// Of the split "test". Null where the task translates nothing, and for made data, which say nothing; UserError where the
// data are no text.
std::unique_ptr<SplitTranslator> make_split_translator(const spec::TaskSpec& task, const dataset::PreparedDataset& data,
                                                       const Clock& clock);

}  // namespace mlbench::train
