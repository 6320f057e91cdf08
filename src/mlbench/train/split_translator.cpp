#include "mlbench/train/split_translator.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/data/plan.h"
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
  std::string reference(int64_t sentence) const override { return references_.at(static_cast<size_t>(sentence)); }

 private:
  std::shared_ptr<const dataset::text::PreparedText> text_;
  std::vector<std::string> references_;
};

// The texts of pairs that are held out of the split "train". Its lines are not kept, so a reference is what the ids of
// the pair's target say, put together as a translation is.
class HeldOutTexts final : public TranslationTexts {
 public:
  HeldOutTexts(std::shared_ptr<const dataset::text::PreparedText> text, const dataset::TokenColumn& targets,
               std::vector<int64_t> records)
      : text_(std::move(text)), targets_(targets), records_(std::move(records)) {}

  std::string text_of(std::span<const int64_t> ids) const override { return text_->vocabulary().text(ids); }
  int64_t sentences() const override { return std::ssize(records_); }
  std::string reference(int64_t sentence) const override {
    const std::span<const int32_t> target = targets_.record(records_.at(static_cast<size_t>(sentence)));
    return text_of(std::vector<int64_t>(target.begin(), target.end()));
  }

 private:
  std::shared_ptr<const dataset::text::PreparedText> text_;
  const dataset::TokenColumn& targets_;
  std::vector<int64_t> records_;
};

}  // namespace

std::unique_ptr<SplitTranslator> SplitTranslator::make(const spec::TaskSpec& task, const dataset::PreparedDataset& data,
                                                       const Clock& clock) {
  if (metrics::of_translations(task.evaluation.metrics).empty() || data.synthetic()) return nullptr;
  if (data.text() == nullptr) {
    throw UserError("task " + task.name + " measures translations, and data set " + data.name() + " is no text");
  }
  std::vector<int64_t> held_out;
  std::unique_ptr<TranslationTexts> texts;
  if (task.data.holdout > 0) {
    const auto& targets = data.split(spec::kTrainSplit).column<dataset::TokenColumn>("target");
    held_out = data::hold_out(targets.records(), task.data.holdout).held_out;
    texts = std::make_unique<HeldOutTexts>(data.text(), targets, held_out);
  } else {
    texts = std::make_unique<PreparedTexts>(data.text());
  }
  return std::unique_ptr<SplitTranslator>(new SplitTranslator(task, std::move(held_out), std::move(texts), clock));
}

SplitTranslator::SplitTranslator(const spec::TaskSpec& task, std::vector<int64_t> held_out,
                                 std::unique_ptr<TranslationTexts> texts, const Clock& clock)
    : options_{.decoding = task.decoding}, held_out_(std::move(held_out)), texts_(std::move(texts)), clock_(clock) {}

void SplitTranslator::add_shard(framework::Framework& framework, data::EvalLoader& loader, MetricSet& metrics) {
  loader.restart();
  std::vector<int64_t> sentences;
  const auto next = [&]() -> SourceBatch {
    const BatchView* view = loader.next();
    if (view == nullptr) return {};
    if (held_out_.empty()) return {view, loader.records()};
    sentences.clear();
    for (const int64_t record : loader.records()) {
      sentences.push_back(std::ranges::lower_bound(held_out_, record) - held_out_.begin());
    }
    return {view, sentences};
  };
  shard_ = translate_shard(framework, next, *texts_, options_, clock_, metrics);
}

void SplitTranslator::write(comm::Communicator& comm, const std::filesystem::path& folder, int64_t step,
                            const MetricSet& metrics) {
  const TranslatedSplit split = gather_translations(comm, *texts_, std::exchange(shard_, {}));
  if (comm.rank() == 0) write_translations(folder, step, split, options_.decoding, metrics.values());
}

}  // namespace mlbench::train
