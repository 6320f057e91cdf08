#include "mlbench/train/translation_evaluation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/train/echo_decoder_test.h"

namespace mlbench::train {
namespace {

using test::EchoFramework;
using testing::HasSubstr;

// Token i is the word "w<i>".
class ToyTexts final : public TranslationTexts {
 public:
  explicit ToyTexts(std::vector<std::string> references) : references_(std::move(references)) {}
  std::string text_of(std::span<const int64_t> ids) const override {
    std::string text;
    for (const int64_t id : ids) text += (text.empty() ? "w" : " w") + std::to_string(id);
    return text;
  }
  int64_t sentences() const override { return std::ssize(references_); }
  std::string reference(int64_t sentence) const override { return references_.at(static_cast<size_t>(sentence)); }

 private:
  std::vector<std::string> references_;
};

// Sentence i of ten has i + 1 tokens, from 4 + i on.
constexpr int64_t kSentences = 10;
std::vector<int64_t> sentence(int64_t number) {
  std::vector<int64_t> ids(static_cast<size_t>(number + 1));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = 4 + number + static_cast<int64_t>(i);
  return ids;
}

// Yields these sentences, two at a time.
class ToySources {
 public:
  explicit ToySources(std::vector<int64_t> numbers) : numbers_(std::move(numbers)) {}

  SourceBatch operator()() {
    if (next_ >= numbers_.size()) return {};
    const std::span<const int64_t> chosen =
        std::span(numbers_).subspan(next_, std::min<size_t>(2, numbers_.size() - next_));
    next_ += chosen.size();
    lengths_.clear();
    for (const int64_t number : chosen) lengths_.push_back(number + 1);
    const int64_t longest = *std::ranges::max_element(lengths_);
    ids_.assign(chosen.size() * static_cast<size_t>(longest), 0);
    for (size_t i = 0; i < chosen.size(); ++i) {
      std::ranges::copy(sentence(chosen[i]), ids_.begin() + static_cast<std::ptrdiff_t>(i) * longest);
    }
    const auto count = static_cast<int64_t>(chosen.size());
    view_ = {};
    view_.samples = count;
    view_.tensors.push_back({"source", {count, longest}, {ids_.data(), count * longest, DType::kInt64}, {}});
    view_.tensors.push_back({"source_lengths", {count}, {lengths_.data(), count, DType::kInt64}, {}});
    return {&view_, chosen};
  }

 private:
  std::vector<int64_t> numbers_, lengths_, ids_;
  size_t next_ = 0;
  BatchView view_;
};

struct Outcome {
  TranslatedSplit split;
  Json metrics;
};

Outcome translate(comm::Communicator& comm, const std::vector<int64_t>& shard, const ToyTexts& texts, int64_t n_best,
                  int64_t threads) {
  EchoFramework framework(threads);
  SearchOptions search;
  search.decoding.beam = 3;
  search.decoding.n_best = n_best;
  search.decoding.length_extra = 20;
  MetricSet metrics(metrics::of_translations({"BLEU", "loss", "chrF2"}));
  ManualClock clock;
  TranslationShard own = translate_shard(framework, ToySources(shard), texts, search, clock, metrics);
  own.seconds = 2.0 * (comm.rank() + 1);
  Outcome outcome;
  outcome.split = gather_translations(comm, texts, std::move(own));
  metrics.merge(comm);
  outcome.metrics = metrics.values();
  return outcome;
}

// Translates on one rank per shard, and returns one outcome per rank.
std::vector<Outcome> translate_on(const std::vector<std::vector<int64_t>>& shards, const ToyTexts& texts,
                                  int64_t n_best, int64_t threads = 1) {
  auto group = comm::make_in_process_group(static_cast<int>(shards.size()), std::chrono::seconds(30));
  std::vector<std::future<Outcome>> ranks;
  for (size_t rank = 0; rank < shards.size(); ++rank) {
    ranks.push_back(std::async(std::launch::async,
                               [&, rank] { return translate(*group[rank], shards[rank], texts, n_best, threads); }));
  }
  std::vector<Outcome> outcomes;
  for (auto& rank : ranks) outcomes.push_back(rank.get());
  return outcomes;
}

ToyTexts toy_texts() {
  const ToyTexts texts({});
  std::vector<std::string> references;
  for (int64_t i = 0; i < kSentences; ++i)
    references.push_back(texts.text_of(sentence(i)) + (i % 3 == 0 ? " more" : ""));
  return ToyTexts(references);
}

// Both have two translations of each sentence.
void expect_same_translations(const Outcome& outcome, const Outcome& expected) {
  ASSERT_EQ(outcome.split.translations.size(), expected.split.translations.size());
  for (size_t i = 0; i < expected.split.translations.size(); ++i) {
    const auto &one = outcome.split.translations[i].best, &same = expected.split.translations[i].best;
    ASSERT_EQ(one.size(), 2U);
    for (size_t n = 0; n < 2; ++n) {
      EXPECT_EQ(one[n].text, same[n].text);
      EXPECT_EQ(one[n].score, same[n].score);
    }
  }
}

TEST(TranslationEvaluation, TranslatesInTheSplitsOrder) {
  const ToyTexts texts = toy_texts();
  const Outcome outcome = std::move(translate_on({{9, 4, 0, 1, 8, 3, 2, 7, 5, 6}}, texts, 1).front());
  ASSERT_EQ(std::ssize(outcome.split.translations), kSentences);
  for (int64_t i = 0; i < kSentences; ++i) {
    const Translation& one = outcome.split.translations[static_cast<size_t>(i)];
    EXPECT_EQ(one.sentence, i);
    ASSERT_EQ(one.best.size(), 1U);
    EXPECT_EQ(one.best[0].text, texts.text_of(sentence(i)));
  }
  EXPECT_EQ(outcome.split.words, 55);
  EXPECT_EQ(outcome.split.sentences, kSentences);
  EXPECT_DOUBLE_EQ(outcome.split.words_per_second(), 27.5);
  EXPECT_GT(outcome.metrics["BLEU"].get<double>(), 80);
  EXPECT_LT(outcome.metrics["BLEU"].get<double>(), 100);
}

TEST(TranslationEvaluation, RanksMergeExactly) {
  const ToyTexts texts = toy_texts();
  const Outcome whole = std::move(translate_on({{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}, texts, 2).front());
  // The third rank has no sentences.
  const std::vector<Outcome> ranks = translate_on({{9, 1, 5}, {0, 2, 3, 4, 6, 7, 8}, {}}, texts, 2);
  for (const Outcome& rank : ranks) {
    for (const char* name : {"BLEU", "chrF2"}) EXPECT_EQ(rank.metrics[name], whole.metrics[name]) << name;
    EXPECT_EQ(rank.split.words, whole.split.words);
    EXPECT_EQ(rank.split.seconds, 6);
  }
  EXPECT_TRUE(ranks[1].split.translations.empty());
  expect_same_translations(ranks[0], whole);
}

TEST(TranslationEvaluation, AnyNumberOfThreadsGivesTheSame) {
  const ToyTexts texts = toy_texts();
  const std::vector<std::vector<int64_t>> shards = {{9, 4, 0, 1, 8, 3, 2, 7, 5, 6}};
  const Outcome one = std::move(translate_on(shards, texts, 2).front());
  for (const int64_t threads : {2, 3, 8}) {  // there are 5 batches
    const Outcome several = std::move(translate_on(shards, texts, 2, threads).front());
    expect_same_translations(several, one);
    for (const char* name : {"BLEU", "chrF2"}) EXPECT_EQ(several.metrics[name], one.metrics[name]) << name;
  }
}

TEST(TranslationEvaluation, ThrowsWhatADecoderThrows) {
  const ToyTexts texts = toy_texts();
  EchoFramework framework(2);
  SearchOptions search;
  search.decoding.beam = 2;
  search.decoding.coverage_penalty = 0.2;  // the decoder has no attention
  MetricSet metrics(metrics::of_translations({"BLEU"}));
  const ManualClock clock;
  EXPECT_THROW(translate_shard(framework, ToySources({3, 4, 5}), texts, search, clock, metrics), UserError);
}

TEST(TranslationEvaluation, ASentenceLeftOutIsABug) {
  const ToyTexts texts = toy_texts();
  EXPECT_THROW(translate_on({{0, 1, 2}}, texts, 1), InternalError);
  EXPECT_THROW(translate_on({{0, 0, 1, 2, 3, 4, 5, 6, 7, 8}}, texts, 1), InternalError);
}

TEST(TranslationEvaluation, FilesAreOfOneLinePerSentence) {
  const TemporaryFolder folder;
  TranslatedSplit split;
  split.translations = {{0, {{-0.5, "ein Haus"}, {-1.25, "das Haus"}}}, {1, {{-2, ""}}}};
  split.sentences = 2;
  split.words = 2;
  split.seconds = 0.5;
  spec::DecodingSpec decoding;
  decoding.beam = 4;
  decoding.n_best = 2;
  decoding.min_length = 1;
  const std::filesystem::path place = folder / "translations";
  write_translations(place, 12, split, decoding, {{"BLEU", 24.5}});
  EXPECT_EQ(read_file(place / "step-12.txt"), "ein Haus\n\n");
  EXPECT_EQ(read_file(place / "step-12.nbest.txt"),
            "0 ||| ein Haus ||| -0.500000\n0 ||| das Haus ||| -1.250000\n1 |||  ||| -2.000000\n");
  const std::string summary = read_file(place / "step-12.json");
  EXPECT_THAT(summary, HasSubstr("\"words_per_second\": 4.0"));
  EXPECT_THAT(summary, HasSubstr("\"BLEU\": 24.5"));
  EXPECT_THAT(summary, HasSubstr("\"min_length\": 1"));
  decoding.n_best = 1;
  write_translations(place, 13, split, decoding, Json::object());
  EXPECT_FALSE(std::filesystem::exists(place / "step-13.nbest.txt"));
}

}  // namespace
}  // namespace mlbench::train
