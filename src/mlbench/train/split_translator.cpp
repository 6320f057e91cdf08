#include "mlbench/train/split_translator.h"

#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/dataset/text/prepared_text.h"
#include "mlbench/metrics/metric.h"
#include "mlbench/spec/split.h"

namespace mlbench::train {

namespace {

// The texts of a prepared text: its vocabulary, and the target lines of the split "test".
class PreparedTexts final : public TranslationTexts {
 public:
  explicit PreparedTexts(std::shared_ptr<const dataset::text::PreparedText> text)
      : text_(std::move(text)), references_(text_->references(spec::kTestSplit)) {}

  std::string text_of(std::span<const int64_t> ids) const override { return text_->vocabulary().text(ids); }
  int64_t sentences() const override { return std::ssize(references_); }
  const std::string& reference(int64_t sentence) const override {
    return references_.at(static_cast<size_t>(sentence));
  }

 private:
  std::shared_ptr<const dataset::text::PreparedText> text_;
  std::vector<std::string> references_;
};

}  // namespace

std::unique_ptr<SplitTranslator> SplitTranslator::make(const spec::TaskSpec& task, const dataset::PreparedDataset& data,
                                                       const Clock& clock) {
  if (metrics::of_translations(task.evaluation.metrics).empty() || data.synthetic()) return nullptr;
  if (data.text() == nullptr) {
    throw UserError("task " + task.name + " measures translations, and data set " + data.name() + " is no text");
  }
  return std::unique_ptr<SplitTranslator>(
      new SplitTranslator(task, std::make_unique<PreparedTexts>(data.text()), clock));
}

SplitTranslator::SplitTranslator(const spec::TaskSpec& task, std::unique_ptr<TranslationTexts> texts,
                                 const Clock& clock)
    : options_{.decoding = task.decoding}, texts_(std::move(texts)), clock_(clock) {}

void SplitTranslator::add_shard(framework::Framework& framework, data::EvalLoader& loader, MetricSet& metrics) {
  const auto decoder = framework.make_decoder();
  loader.restart();
  const auto next = [&]() -> SourceBatch {
    const BatchView* view = loader.next();
    if (view == nullptr) return {};
    return {view, loader.records()};
  };
  shard_ = translate_shard(*decoder, next, *texts_, options_, clock_, metrics);
}

void SplitTranslator::write(comm::Communicator& comm, const std::filesystem::path& folder, int64_t step,
                            const MetricSet& metrics) {
  const TranslatedSplit split = gather_translations(comm, *texts_, std::exchange(shard_, {}));
  if (comm.rank() == 0) write_translations(folder, step, split, options_.decoding, metrics.values());
}

}  // namespace mlbench::train
