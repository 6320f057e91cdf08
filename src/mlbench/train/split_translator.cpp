#include "mlbench/train/split_translator.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/dataset/cached_tokens.h"
#include "mlbench/metrics/metric.h"
#include "mlbench/train/vocabulary_texts.h"

namespace mlbench::train {

SplitTranslator::SplitTranslator(const spec::DecodingSpec& decoding, std::unique_ptr<TranslationTexts> texts,
                                 const Clock& clock)
    : options_{decoding, dataset::kPad, dataset::kBegin, dataset::kEnd}, texts_(std::move(texts)), clock_(clock) {}

void SplitTranslator::add_shard(framework::Framework& framework, data::EvalLoader& loader, MetricSet& metrics) {
  loader.restart();
  const auto next = [&loader]() -> SourceBatch {
    const BatchView* view = loader.next();
    if (view == nullptr) return {};
    return {view, loader.records()};
  };
  const auto decoder = framework.make_decoder();
  TranslationShard shard = translate_shard(*decoder, next, *texts_, options_, clock_, metrics);
  std::ranges::move(shard.translations, std::back_inserter(shard_.translations));
  shard_.seconds += shard.seconds;
}

TranslatedSplit SplitTranslator::gather(comm::Communicator& comm) {
  return gather_translations(comm, *texts_, std::exchange(shard_, {}));
}

std::unique_ptr<SplitTranslator> make_split_translator(const spec::TaskSpec& task, const dataset::PreparedDataset& data,
                                                       const Clock& clock) {
  if (metrics::of_translations(task.evaluation.metrics).empty() || data.synthetic()) return nullptr;
  if (!data.text()) {
    throw UserError(fmt::format("task {} translates, and data set '{}' is no prepared text", task.name, data.name()));
  }
  return std::make_unique<SplitTranslator>(task.decoding, std::make_unique<VocabularyTexts>(data.text(), "test"),
                                           clock);
}

}  // namespace mlbench::train
