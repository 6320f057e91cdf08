#include "mlbench/train/split_translator.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>

#include "mlbench/base/files.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/data/test_text.h"
#include "mlbench/dataset/text/prepared_text.h"
#include "mlbench/metrics/metric.h"
#include "mlbench/train/echo_decoder_test.h"

namespace mlbench::train::test {
namespace {

constexpr int64_t kEchoedPairs = 60, kEchoedVocabulary = EchoDecoder::kVocabulary;

// Pairs whose target is their source, in a vocabulary of the words "w0", "w1", and so on.
class EchoedPairs {
 public:
  EchoedPairs() {
    std::vector<std::string> words;
    for (int64_t i = 0; i < kEchoedVocabulary; ++i) words.push_back("w" + std::to_string(i));
    dataset::text::VocabularySpec spec;
    spec.size = kEchoedVocabulary;
    dataset::text::TextVocabulary(spec, words).save(dataset::text::vocabulary_path(folder_.path()));
    write_file_atomically(folder_ / "facts.json", "{}");
    std::vector<dataset::CachedSplit> splits(2, pairs_.split());
    splits[1].name = "test";
    dataset::DatasetDescription description;
    description.fingerprint = "known";
    data_ = std::make_unique<dataset::PreparedDataset>(description, nullptr, splits, "made", "");
    data_->set_text(std::make_shared<dataset::text::PreparedText>(folder_.path()));
  }
  const dataset::PreparedDataset& data() const { return *data_; }
  std::string target(int64_t record) const {
    std::string text;
    for (const int32_t id : pairs_.split().column<dataset::TokenColumn>("target").record(record)) {
      text += (text.empty() ? "w" : " w") + std::to_string(id);
    }
    return text;
  }

 private:
  static std::vector<int64_t> lengths() {
    std::vector<int64_t> all;
    for (int64_t i = 0; i < kEchoedPairs; ++i) all.push_back(2 + i % 7);
    return all;
  }

  const data::test::Pairs pairs_{lengths(), lengths(), kEchoedVocabulary};
  const TemporaryFolder folder_;
  std::unique_ptr<dataset::PreparedDataset> data_;
};

TEST(SplitTranslator, ComparesWhatIsHeldOutWithItsOwnTargets) {
  const EchoedPairs pairs;
  spec::TaskSpec task;
  task.data.batching = "sentences";
  task.data.holdout = 0.25;
  task.data.evaluation_batch = 4;
  task.batch_size = 8;
  task.evaluation.metrics = {"BLEU"};
  task.decoding.beam = 2;
  task.decoding.length_extra = 20;
  const ManualClock clock;
  EchoFramework framework;
  MetricSet metrics(task.evaluation.metrics);
  const auto translate_of = [&](int64_t workers) {
    auto translator = SplitTranslator::make(task, pairs.data(), clock);
    const auto workload = data::make_workload(task, pairs.data(), workers, 7);
    metrics.reset();
    for (int64_t rank = 0; rank < workers; ++rank) {
      translator->add_shard(framework, *workload->make_eval_loader({workers, rank}), metrics);
    }
    return std::pair(metrics.value("BLEU"), std::move(translator));
  };
  EXPECT_DOUBLE_EQ(translate_of(3).first, 100);
  const auto [bleu, translator] = translate_of(1);
  EXPECT_DOUBLE_EQ(bleu, 100);

  const TemporaryFolder folder;
  const auto alone = comm::make_in_process_group(1, std::chrono::seconds(30));
  translator->write(*alone.front(), folder.path(), 3, metrics);
  std::string expected;
  for (const int64_t record : data::hold_out(kEchoedPairs, 0.25).held_out) expected += pairs.target(record) + "\n";
  EXPECT_EQ(std::ranges::count(expected, '\n'), 15);
  EXPECT_EQ(read_file(folder / "step-3.txt"), expected);
}

}  // namespace
}  // namespace mlbench::train::test
