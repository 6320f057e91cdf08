#include "mlbench/train/beam_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "mlbench/base/errors.h"

namespace mlbench::train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kEnd = 3, kA = 4, kB = 5, kTokens = 6;
using Tokens = std::vector<int64_t>;

// The probabilities of the next token, from the tokens that a sentence's row has written.
using Distribution = std::function<std::array<double, kTokens>(int64_t source, const Tokens& written)>;
// The attention of a step to each source token.
using Attention = std::function<std::vector<float>(int64_t source, const Tokens& written)>;

// A decoder to which each sentence is one number, its first source token.
class ToyDecoder final : public framework::Decoder {
 public:
  explicit ToyDecoder(Distribution distribution, Attention attention = {})
      : distribution_(std::move(distribution)), attention_(std::move(attention)) {}

  void start(const BatchView& sources, int64_t rows_per_sample) override {
    const BatchTensor& source = sources.at("source");
    positions_ = source.row_volume();
    rows_.clear();
    for (int64_t i = 0; i < sources.samples; ++i) {
      const int64_t first = static_cast<const int64_t*>(source.values.data)[i * positions_];
      for (int64_t r = 0; r < rows_per_sample; ++r) rows_.push_back({first, {}});
    }
  }
  std::span<const float> step(std::span<const int64_t> tokens) override {
    EXPECT_EQ(tokens.size(), rows_.size());
    log_probabilities_.clear();
    looked_at_.clear();
    for (size_t row = 0; row < rows_.size(); ++row) {
      rows_[row].written.push_back(tokens[row]);
      const Tokens written(rows_[row].written.begin() + 1, rows_[row].written.end());  // without the begin
      for (const double p : distribution_(rows_[row].source, written)) {
        log_probabilities_.push_back(static_cast<float>(std::log(p)));
      }
      if (!attention_) continue;
      std::vector<float> attention = attention_(rows_[row].source, written);
      attention.resize(static_cast<size_t>(positions_), 0);
      looked_at_.insert(looked_at_.end(), attention.begin(), attention.end());
    }
    sizes.push_back(rows_.size());
    return log_probabilities_;
  }
  void reorder(std::span<const int64_t> rows) override {
    std::vector<Row> next;
    for (const int64_t row : rows) next.push_back(rows_.at(static_cast<size_t>(row)));
    rows_ = std::move(next);
  }
  std::span<const float> attention() override { return looked_at_; }

  std::vector<size_t> sizes;  // rows of each step

 private:
  struct Row {
    int64_t source;
    Tokens written;
  };
  Distribution distribution_;
  Attention attention_;
  int64_t positions_ = 0;
  std::vector<Row> rows_;
  std::vector<float> log_probabilities_, looked_at_;
};

struct Sources {
  std::vector<int64_t> tokens, lengths;
  BatchView view;
};

// Makes sentences of these lengths, padded. Sentence i begins with token numbers[i].
std::unique_ptr<Sources> sources_of(const Tokens& numbers, const Tokens& lengths) {
  auto sources = std::make_unique<Sources>();
  const int64_t longest = *std::ranges::max_element(lengths);
  const auto count = static_cast<int64_t>(numbers.size());
  sources->tokens.assign(static_cast<size_t>(count * longest), 0);
  for (int64_t i = 0; i < count; ++i)
    sources->tokens[static_cast<size_t>(i * longest)] = numbers[static_cast<size_t>(i)];
  sources->lengths = lengths;
  sources->view.samples = count;
  sources->view.tensors.push_back(
      {"source", {count, longest}, {sources->tokens.data(), count * longest, DType::kInt64}, {}});
  sources->view.tensors.push_back({"source_lengths", {count}, {sources->lengths.data(), count, DType::kInt64}, {}});
  return sources;
}

SearchOptions options_of(int64_t beam, int64_t most_tokens) {
  SearchOptions options;
  options.decoding.beam = beam;
  options.decoding.length_extra = most_tokens;
  return options;
}

// Probabilities that depend on the source and on all that was written, in no simple way.
std::array<double, kTokens> tangled(int64_t source, const Tokens& written) {
  std::array<double, kTokens> weights = {0.3, 0, 0.2, 0, 0, 0};  // pad and begin take a part, too
  uint64_t state = 1099511628211ULL * static_cast<uint64_t>(source + 7);
  for (const int64_t token : written) state = state * 6364136223846793005ULL + static_cast<uint64_t>(token) + 1;
  for (const size_t token : {size_t{1}, size_t{3}, size_t{4}, size_t{5}}) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    weights[token] = 0.05 + static_cast<double>(state >> 40U) / static_cast<double>(1U << 24U);
  }
  double sum = 0;
  for (const double weight : weights) sum += weight;
  for (double& weight : weights) weight /= sum;
  return weights;
}

std::vector<float> tangled_attention(int64_t source, const Tokens& written) {
  const std::array<double, kTokens> p = tangled(source + 100, written);
  const double first = p[1] / (p[1] + p[4] + p[5]), second = p[4] / (p[1] + p[4] + p[5]);
  return {static_cast<float>(first), static_cast<float>(second), static_cast<float>(1 - first - second)};
}

// All hypotheses of decoding.min_length up to `most` tokens, the best first.
std::vector<Hypothesis> exhaustive(int64_t source, int64_t most, const spec::DecodingSpec& decoding) {
  std::vector<Hypothesis> all;
  const std::function<void(const Tokens&, double, std::vector<double>)> visit =
      [&](const Tokens& written, double log_probability, std::vector<double> coverage) {
        const std::array<double, kTokens> p = tangled(source, written);
        const std::vector<float> attention = tangled_attention(source, written);
        for (size_t i = 0; i < 3; ++i) coverage[i] += static_cast<double>(attention[i]);
        const auto with = [&](int64_t token) {
          return log_probability + static_cast<double>(static_cast<float>(std::log(p[static_cast<size_t>(token)])));
        };
        const auto length = std::ssize(written) + 1;
        const double lp = decoding.length_penalty == "wu"
                              ? std::pow(5.0 + static_cast<double>(length), decoding.length_exponent) /
                                    std::pow(6.0, decoding.length_exponent)
                              : std::pow(static_cast<double>(length), decoding.length_exponent);
        double penalty = 0;
        for (const double received : coverage) penalty += decoding.coverage_penalty * std::log(std::min(received, 1.0));
        if (std::ssize(written) >= decoding.min_length) all.push_back({written, with(kEnd), with(kEnd) / lp + penalty});
        if (std::ssize(written) == most) return;
        for (const int64_t token : {int64_t{1}, kA, kB}) {
          Tokens longer = written;
          longer.push_back(token);
          visit(longer, with(token), coverage);
        }
      };
  visit({}, 0, {0, 0, 0});
  std::ranges::stable_sort(all, std::ranges::greater(), &Hypothesis::score);
  return all;
}

// There are 1 + 3 + 9 + 27 hypotheses of up to 3 tokens.
TEST(BeamSearch, AWideBeamFindsWhatExhaustiveSearchFinds) {
  struct Case {
    const char* length_penalty;
    double coverage_penalty;
    int64_t min_length;
    size_t hypotheses;
  };
  for (const auto& [length_penalty, coverage_penalty, min_length, hypotheses] :
       {Case{"wu", 0.1, 0, 40}, Case{"power", 0, 0, 40}, Case{"wu", 0, 1, 39}, Case{"wu", 0, 2, 36}}) {
    SearchOptions options = options_of(64, 3);
    options.decoding.length_penalty = length_penalty;
    options.decoding.length_exponent = 0.6;
    options.decoding.coverage_penalty = coverage_penalty;
    options.decoding.min_length = min_length;
    const Tokens numbers = {1, 4, 5, 77};
    const auto sources = sources_of(numbers, {3, 3, 3, 3});
    ToyDecoder decoder(tangled, tangled_attention);
    const auto found = search(decoder, sources->view, options);
    ASSERT_EQ(found.size(), 4U);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const std::vector<Hypothesis> expected = exhaustive(numbers[i], 3, options.decoding);
      ASSERT_EQ(expected.size(), hypotheses);
      ASSERT_EQ(found[i].size(), hypotheses);
      for (size_t h = 0; h < expected.size(); ++h) {
        EXPECT_EQ(found[i][h].tokens, expected[h].tokens) << "sentence " << i << ", hypothesis " << h;
        EXPECT_NEAR(found[i][h].score, expected[h].score, 1e-12);
        EXPECT_NEAR(found[i][h].log_probability, expected[h].log_probability, 1e-12);
      }
    }
  }
}

// By hand: a 0.5, b 0.3, end 0.2; then after a: end 0.4, a and b 0.3; after b: end 0.9, a and b 0.05.
std::array<double, kTokens> by_hand(int64_t /*source*/, const Tokens& written) {
  if (written.empty()) return {0, 0, 0, 0.2, 0.5, 0.3};
  return written.back() == kA ? std::array<double, kTokens>{0, 0, 0, 0.4, 0.3, 0.3}
                              : std::array<double, kTokens>{0, 0, 0, 0.9, 0.05, 0.05};
}

TEST(BeamSearch, TwoHypothesesByHand) {
  // In the first step, "end" is the third of the continuations a, b and end, so it is not among the two best and not
  // taken. Then come b end 0.27, a end 0.2, and a a and a b 0.15: the two that end are two finished ones.
  ToyDecoder decoder(by_hand);
  const auto sources = sources_of({4}, {1});
  const auto found = search(decoder, sources->view, options_of(2, 9));
  ASSERT_EQ(found.front().size(), 2U);
  EXPECT_THAT(found[0][0].tokens, ElementsAre(kB));
  EXPECT_THAT(found[0][1].tokens, ElementsAre(kA));
  EXPECT_NEAR(found[0][0].score, std::log(0.27), 1e-6);
  EXPECT_NEAR(found[0][1].score, std::log(0.2), 1e-6);
  EXPECT_THAT(decoder.sizes, ElementsAre(1, 2));
}

// By hand: end 0.6, a 0.3, b 0.1; after one token end 0.5, a 0.4, b 0.1.
std::array<double, kTokens> ends_early(int64_t /*source*/, const Tokens& written) {
  return written.empty() ? std::array<double, kTokens>{0, 0, 0, 0.6, 0.3, 0.1}
                         : std::array<double, kTokens>{0, 0, 0, 0.5, 0.4, 0.1};
}

TEST(BeamSearch, AMinimumLengthLeavesNoTranslationEmpty) {
  const auto sources = sources_of({4}, {1});
  SearchOptions options = options_of(2, 9);
  options.decoding.length_exponent = 0.6;
  // The end is the best continuation: the empty translation is finished. a and b go on, and a end 0.15 is the second
  // one.
  ToyDecoder free(ends_early);
  const auto empty = search(free, sources->view, options).front();
  ASSERT_EQ(empty.size(), 2U);
  EXPECT_THAT(empty[0].tokens, IsEmpty());
  EXPECT_THAT(empty[1].tokens, ElementsAre(kA));
  EXPECT_NEAR(empty[1].score, std::log(0.15) / std::pow(7.0 / 6, 0.6), 1e-6);
  // At first the end is not allowed, and a and b go on. Then come a end 0.15, a a 0.12, b end 0.05 and b a 0.04: a has
  // ended, a a and b a go on. Then come a a end 0.06 and a a a 0.048: two have ended.
  options.decoding.min_length = 1;
  ToyDecoder held(ends_early);
  const auto found = search(held, sources->view, options).front();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_THAT(found[0].tokens, ElementsAre(kA));
  EXPECT_THAT(found[1].tokens, ElementsAre(kA, kA));
  EXPECT_NEAR(found[0].score, std::log(0.15) / std::pow(7.0 / 6, 0.6), 1e-6);
  EXPECT_NEAR(found[1].score, std::log(0.06) / std::pow(8.0 / 6, 0.6), 1e-6);
  EXPECT_THAT(held.sizes, ElementsAre(1, 2, 2));
  // The least length holds where the rule for the greatest length gives less.
  options.decoding.length_extra = 0;
  ToyDecoder bounded(ends_early);
  EXPECT_THAT(search(bounded, sources->view, options).front()[0].tokens, ElementsAre(kA));
}

TEST(BeamSearch, GreedyTakesTheBestTokenOfEachStep) {
  ToyDecoder decoder(by_hand);
  const auto sources = sources_of({4}, {1});
  const auto found = search(decoder, sources->view, options_of(1, 9));
  ASSERT_EQ(found.front().size(), 1U);
  EXPECT_THAT(found[0][0].tokens, ElementsAre(kA));
  EXPECT_NEAR(found[0][0].log_probability, std::log(0.2), 1e-6);
}

TEST(BeamSearch, LengthPenaltiesAreThoseOfThePapers) {
  spec::DecodingSpec decoding;
  decoding.length_exponent = 0.6;
  EXPECT_DOUBLE_EQ(length_penalty(decoding, 1), 1);
  EXPECT_NEAR(length_penalty(decoding, 7), 1.5157165665, 1e-9);  // 2^0.6
  decoding.length_penalty = "power";
  EXPECT_DOUBLE_EQ(length_penalty(decoding, 1), 1);
  EXPECT_NEAR(length_penalty(decoding, 32), 8, 1e-9);  // 2^(5 * 0.6)
  EXPECT_NEAR(coverage_penalty(0.1, {0.5, 3, 1}), 0.1 * std::log(0.5), 1e-12);
  EXPECT_NEAR(coverage_penalty(1, {0}), std::log(kLeastCoverage), 1e-12);
}

TEST(BeamSearch, NoHypothesisIsLongerThanTheRuleAllows) {
  const auto never_ends = [](int64_t, const Tokens&) { return std::array<double, kTokens>{0, 0, 0, 1e-9, 0.6, 0.4}; };
  SearchOptions options = options_of(2, 1);
  options.decoding.length_ratio = 1.5;
  const auto sources = sources_of({4, 4, 4}, {1, 2, 5});
  ToyDecoder decoder(never_ends);
  const auto found = search(decoder, sources->view, options);
  EXPECT_THAT(found[0][0].tokens, ElementsAre(kA, kA));          // floor(1.5) + 1
  EXPECT_THAT(found[1][0].tokens, ElementsAre(kA, kA, kA, kA));  // 3 + 1
  EXPECT_EQ(found[2][0].tokens.size(), 8U);                      // floor(7.5) + 1
  // Rows of sentences that are done are no longer computed.
  EXPECT_THAT(decoder.sizes, ElementsAre(3, 6, 6, 4, 4, 2, 2, 2, 2));
}

TEST(BeamSearch, EqualScoresGoToTheFirst) {
  const auto even = [](int64_t, const Tokens&) { return std::array<double, kTokens>{0, 0.25, 0, 0.25, 0.25, 0.25}; };
  const auto sources = sources_of({4}, {1});
  ToyDecoder decoder(even);
  const auto found = search(decoder, sources->view, options_of(2, 9));
  ASSERT_EQ(found[0].size(), 2U);
  EXPECT_THAT(found[0][0].tokens, IsEmpty());
  EXPECT_THAT(found[0][1].tokens, ElementsAre(1));
}

TEST(BeamSearch, SentencesDoNotMeetEachOther) {
  SearchOptions options = options_of(4, 6);
  options.decoding.length_exponent = 0.6;
  options.decoding.coverage_penalty = 0.2;
  const Tokens numbers = {1, 4, 5, 9, 12, 40}, lengths = {3, 2, 1, 3, 2, 1};
  const auto together = sources_of(numbers, lengths);
  ToyDecoder decoder(tangled, tangled_attention);
  const auto all = search(decoder, together->view, options);
  for (size_t i = 0; i < numbers.size(); ++i) {
    const auto alone = sources_of({numbers[i]}, {lengths[i]});
    ToyDecoder own(tangled, [&](int64_t source, const Tokens& written) {
      std::vector<float> attention = tangled_attention(source, written);
      attention.resize(static_cast<size_t>(lengths[i]));
      return attention;
    });
    const auto one = search(own, alone->view, options).front();
    ASSERT_EQ(one.size(), all[i].size()) << i;
    for (size_t h = 0; h < one.size(); ++h) {
      EXPECT_EQ(one[h].tokens, all[i][h].tokens) << i << " " << h;
      EXPECT_EQ(one[h].score, all[i][h].score) << i << " " << h;
    }
  }
}

TEST(BeamSearch, AModelWithoutNumbersWritesNothing) {
  const auto broken = [](int64_t, const Tokens&) {
    std::array<double, kTokens> all{};
    all.fill(std::numeric_limits<double>::quiet_NaN());
    return all;
  };
  const auto sources = sources_of({4, 5}, {1, 1});
  ToyDecoder decoder(broken);
  for (const auto& hypotheses : search(decoder, sources->view, options_of(3, 5))) {
    ASSERT_EQ(hypotheses.size(), 1U);
    EXPECT_THAT(hypotheses[0].tokens, IsEmpty());
  }
}

TEST(BeamSearch, NothingToCoverIsAnError) {
  SearchOptions options = options_of(2, 5);
  options.decoding.coverage_penalty = 0.1;
  const auto sources = sources_of({4}, {1});
  ToyDecoder decoder(by_hand);
  EXPECT_THROW(search(decoder, sources->view, options), UserError);
}

TEST(BeamSearch, NoSentencesGiveNoTranslations) {
  Tokens none;
  BatchView view;
  view.tensors.push_back({"source_lengths", {0}, {none.data(), 0, DType::kInt64}, {}});
  ToyDecoder decoder(by_hand);
  EXPECT_THAT(search(decoder, view, options_of(2, 5)), IsEmpty());
}

}  // namespace
}  // namespace mlbench::train
