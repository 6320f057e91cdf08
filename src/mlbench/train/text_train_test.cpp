// Trains the loop on text, with models whose results are known: with several ranks, micro-batches or a resume, a run
// gives what one batch gives.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "mlbench/data/test_text.h"
#include "mlbench/train/toy_test.h"

namespace mlbench::train::test {
namespace {

constexpr int64_t kVocabulary = 200;

// One number w for each token, which encoder, decoder and predictions share. The loss of a predicted token y is
// (h - w[y])^2 / 2 with
//   of a translation     h = mean of w over the source + w[token before]
//   of a text            h = w[token before] + h before / 2, carried along the column; gradients end at h before
class TextFramework final : public ToyFramework {
 public:
  // `largest` is the largest gradient that can be stored; a larger one becomes infinite.
  TextFramework(bool translates, float largest)
      : ToyFramework(kVocabulary), translates_(translates), largest_(largest) {}

  void backward(const framework::BackwardOptions& options) override {
    ToyFramework::backward(options);
    for (float& value : framework::values_of(gradients())) {
      if (std::abs(value) > largest_) value = std::copysign(std::numeric_limits<float>::infinity(), value);
    }
  }

  std::vector<float> carried_state() override { return carried_; }
  void set_carried_state(std::span<const float> state, int64_t sequences) override {
    EXPECT_EQ(std::ssize(state), sequences);
    carried_.assign(state.begin(), state.end());
  }

 private:
  void compute(const BatchView& batch, framework::Mode mode) override {
    translates_ ? translate(batch) : continue_text(batch, mode);
  }
  // Adds the loss of `target` after `h`, and returns dl/dh.
  double predict(double h, int64_t target) {
    const double error = add_square(h - w(target));
    add_slope(target, -error);
    return error;
  }
  void translate(const BatchView& batch) {
    const auto source = tensor_of<int64_t>(batch, "source"), target_in = tensor_of<int64_t>(batch, "target_in");
    const auto target_out = tensor_of<int64_t>(batch, "target_out");
    const auto source_lengths = tensor_of<int64_t>(batch, "source_lengths");
    const auto target_lengths = tensor_of<int64_t>(batch, "target_lengths");
    const size_t source_width = source.size() / source_lengths.size();
    const size_t target_width = target_in.size() / target_lengths.size();
    for (size_t i = 0; i < source_lengths.size(); ++i) {
      const auto sentence = source.subspan(i * source_width, static_cast<size_t>(source_lengths[i]));
      double context = 0, context_slope = 0;
      for (const int64_t token : sentence) context += w(token) / static_cast<double>(sentence.size());
      for (size_t j = 0; j < static_cast<size_t>(target_lengths[i]); ++j) {
        const int64_t before = target_in[i * target_width + j];
        const double slope = predict(context + w(before), target_out[i * target_width + j]);
        add_slope(before, slope);
        context_slope += slope;
      }
      for (const int64_t token : sentence) add_slope(token, context_slope / static_cast<double>(sentence.size()));
    }
  }
  void continue_text(const BatchView& batch, framework::Mode mode) {
    const auto tokens = tensor_of<int64_t>(batch, "tokens"), targets = tensor_of<int64_t>(batch, "targets");
    const auto columns = static_cast<size_t>(batch.samples);
    std::vector<float>& state = mode == framework::Mode::kTrain ? carried_ : evaluated_;
    if (!batch.continues) state.assign(columns, 0);
    ASSERT_EQ(state.size(), columns);
    for (size_t i = 0; i < tokens.size(); ++i) {
      float& h = state[i % columns];
      h = static_cast<float>(w(tokens[i]) + h / 2.0);
      add_slope(tokens[i], predict(h, targets[i]));
    }
  }

  const bool translates_;
  const float largest_;
  std::vector<float> carried_, evaluated_;
};

// Data: 37 pairs of sentences, and a text of 1,500 tokens.
struct Texts {
  static std::vector<int64_t> lengths(size_t factor, size_t most) {
    std::vector<int64_t> result(37);
    for (size_t i = 0; i < result.size(); ++i) result[i] = 1 + static_cast<int64_t>(i * factor % most);
    return result;
  }
  std::vector<dataset::CachedSplit> splits(bool columns) const {
    std::vector<dataset::CachedSplit> both(2, columns ? text.split() : pairs.split());
    both[1].name = "test";
    return both;
  }

  data::test::Text text{1500, kVocabulary};
  data::test::Pairs pairs{lengths(5, 13), lengths(3, 11), kVocabulary};
};

class TextRun : private Texts, public ToyRun {
 public:
  explicit TextRun(const std::string& batching, float largest = std::numeric_limits<float>::max())
      : ToyRun([columns = batching == "columns",
                largest](int) { return std::make_unique<TextFramework>(!columns, largest); },
               splits(batching == "columns")) {
    spec::TaskSpec& task = run.task.task;
    task.loss = "token_cross_entropy";
    task.data.batching = batching;
    task.data.bptt = 12;
    task.data.bptt_deviation = 3;
    task.data.short_probability = 0.2;
    task.data.length_multiple = 2;
    task.data.evaluation_batch = 5;
    task.evaluation.metrics = {"Perplexity"};
  }
};

// ---- translation ----------------------------------------------------------------------------------------------------

ToyOutcome translate_with(const std::string& batching, int64_t workers, int64_t batch_size, int64_t global_batch) {
  TextRun test(batching);
  test.run.workers = workers;
  test.run.task.task.batch_size = batch_size;
  test.run.task.task.global_batch = global_batch;
  return test.start();
}

TEST(Translation, ranks_and_micro_batches_of_sentences_give_what_one_batch_gives) {
  const ToyOutcome one = translate_with("sentences", 1, 9, 9);  // 37 pairs, so the last batch of each epoch has one
  EXPECT_EQ(one.steps, 15);
  EXPECT_EQ(one.most_micro_batches, 1);
  EXPECT_EQ(one.evaluations.size(), 3U);
  EXPECT_LT(one.evaluations.back().first, one.evaluations.front().first) << "it learns";
  for (const int64_t workers : {1, 2, 3}) {
    for (const int64_t batch_size : {1, 2, 9}) {
      SCOPED_TRACE(testing::Message() << workers << " ranks, micro-batches of " << batch_size);
      const ToyOutcome outcome = translate_with("sentences", workers, batch_size, 9);
      expect_near(outcome, one);
      const int64_t most = (9 + workers - 1) / workers;
      EXPECT_EQ(outcome.most_micro_batches, (most + batch_size - 1) / batch_size);
      EXPECT_EQ(outcome.empty_steps, 3 * (workers - 1)) << "in the last step of each epoch";
    }
  }
}

TEST(Translation, so_do_batches_by_tokens) {
  const ToyOutcome one = translate_with("tokens", 1, 16, 64);
  EXPECT_GT(one.most_micro_batches, 1);
  for (const int64_t workers : {2, 3, 5}) {
    SCOPED_TRACE(workers);
    expect_near(translate_with("tokens", workers, 16, 64), one);
  }
}

// The last step of each epoch has one pair, with five tokens, for 3 ranks.
TEST(Translation, a_rank_without_tokens_adds_nothing) {
  const ToyOutcome outcome = translate_with("sentences", 3, 12, 36);
  EXPECT_EQ(outcome.empty_steps, 3 * 2);
  expect_near(outcome, translate_with("sentences", 1, 36, 36));
}

TEST(Translation, of_steps_that_count_the_tokens_of_the_targets) {
  const ToyOutcome one = translate_with("sentences", 2, 4, 0);
  int64_t tokens = 0;
  for (size_t i = 0; i < 37; ++i) tokens += 2 + static_cast<int64_t>(i * 3 % 11);
  EXPECT_EQ(one.weight, 3 * tokens);
}

// Compares one step of each kind from the same start: the gradient is divided by sentences instead of tokens.
TEST(Translation, may_divide_by_the_local_sentences) {
  const auto change = [](const std::string& divisor, int64_t workers) {
    TextRun test("sentences");
    test.run.workers = workers;
    test.run.task.task.batch_size = 5;
    test.run.task.task.global_batch = 20;
    test.run.task.task.loss_divisor = divisor;
    test.run.limits.max_steps = 1;
    test.run.task.task.optimizer.lr = 1e-9;
    const std::vector<float> start = test.start().parameters;
    test.run.task.task.optimizer.lr = 0.5;
    const ToyOutcome outcome = test.start();
    std::vector<float> difference(start.size());
    std::ranges::transform(outcome.parameters, start, difference.begin(), std::minus<>());
    return std::pair(difference, outcome.weight);
  };
  const auto [by_tokens, tokens] = change("weight", 1);
  const auto [by_sentences, same_tokens] = change("local_samples", 1);
  EXPECT_EQ(same_tokens, tokens);
  std::vector<float> expected = by_tokens;
  for (float& value : expected) value *= static_cast<float>(tokens) / 20;
  expect_near(by_sentences, expected);
  // Two ranks of 10 sentences each sum to twice as much.
  for (float& value : expected) value *= 2;
  expect_near(change("local_samples", 2).first, expected);
}

// Where the gradient is divided after the sum over ranks, the loss scale applies to the sum of losses: so the framework
// is told to multiply.
TEST(Translation, may_divide_behind_the_sum_of_the_ranks) {
  for (const std::string batching : {"sentences", "tokens"}) {
    const auto train = [&](const std::string& divisor, int64_t workers) {
      TextRun test(batching);
      test.run.workers = workers;
      test.run.task.task.batch_size = batching == "tokens" ? 16 : 5;
      test.run.task.task.global_batch = batching == "tokens" ? 64 : 20;
      test.run.task.task.loss_divisor = divisor;
      test.run.task.task.optimizer.options["loss_scale"] = 1024;
      return test.start();
    };
    const ToyOutcome one = train("weight", 1);
    for (const int64_t workers : {1, 2, 3}) {
      SCOPED_TRACE(testing::Message() << batching << " " << workers);
      expect_near(train("weight_after_sum", workers), one);
    }
  }
}

// The framework holds gradients in 16 bits up to 65504. With sums over some hundred tokens, a scale overflows that
// would not if the loss had been divided by the tokens before. The scale is halved until the sums fit.
TEST(Translation, an_overflow_of_the_sum_is_seen) {
  const auto train = [](const std::string& divisor) {
    TextRun test("sentences", 65504);
    test.run.workers = 2;
    test.run.task.task.batch_size = 5;
    test.run.task.task.global_batch = 20;
    test.run.task.task.loss_divisor = divisor;
    test.run.task.task.optimizer.options["loss_scale"] = 65536;
    test.run.task.task.epochs = 8;
    return test.start();
  };
  const ToyOutcome before = train("weight"), behind = train("weight_after_sum");
  EXPECT_EQ(before.skipped_steps, 0);
  EXPECT_GT(behind.skipped_steps, 0);
  EXPECT_LT(behind.skipped_steps, behind.steps);
  EXPECT_LT(behind.evaluations.back().first, behind.evaluations.front().first) << "it learns behind that";
}

// ---- a text ---------------------------------------------------------------------------------------------------------

ToyOutcome continue_with(int64_t workers, int64_t columns) {
  TextRun test("columns");
  test.run.workers = workers;
  test.run.task.task.batch_size = columns;
  return test.start();
}

TEST(LanguageModel, ranks_give_what_one_batch_of_all_columns_gives) {
  const ToyOutcome one = continue_with(1, 6);  // 249 predictions in each column
  EXPECT_EQ(one.weight, 3 * 6 * 249);
  EXPECT_EQ(one.evaluations.size(), 3U);
  EXPECT_LT(one.evaluations.back().second, one.evaluations.front().second) << "it learns";
  EXPECT_NEAR(std::exp(one.evaluations.back().first), one.evaluations.back().second, 1e-9);
  for (const int64_t workers : {2, 3, 6}) {
    SCOPED_TRACE(workers);
    expect_near(continue_with(workers, 6 / workers), one);
  }
}

// ---- resumed --------------------------------------------------------------------------------------------------------

struct ResumeCase {
  const char* batching;
  int64_t batch_size, global_batch;
};

class ResumeText : public testing::TestWithParam<ResumeCase> {
 protected:
  // Two epochs, with a checkpoint after each step.
  static std::unique_ptr<TextRun> resumable(int64_t workers) {
    auto test = std::make_unique<TextRun>(GetParam().batching);
    test->run.workers = workers;
    test->run.task.task.batch_size = GetParam().batch_size;
    test->run.task.task.global_batch = GetParam().global_batch;
    test->run.task.task.epochs = 2;
    test->run.checkpoint.every_steps = 1;
    return test;
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, ResumeText,
                         testing::Values(ResumeCase{"columns", 3, 0}, ResumeCase{"sentences", 2, 9},
                                         ResumeCase{"tokens", 16, 64}),
                         [](const auto& one) { return std::string(one.param.batching); });

TEST_P(ResumeText, at_any_step_gives_the_same_bits) {
  for (const int64_t workers : {1, 2}) {
    const auto test = resumable(workers);
    const ToyOutcome whole = test->start();
    ASSERT_GT(whole.steps, 4);
    for (int64_t step = 1; step < whole.steps; step += std::max<int64_t>(whole.steps / 8, 1)) {
      const ToyOutcome rest = test->start(step);
      EXPECT_EQ(rest.parameters, whole.parameters) << "resumed at " << step << " of " << whole.steps;
      EXPECT_EQ(rest.evaluations.back(), whole.evaluations.back());
      EXPECT_NEAR(rest.epoch_losses.back(), whole.epoch_losses.back(), 1e-12);
    }
  }
}

// The sums of a step's first micro-batches are in no checkpoint, so the step is taken again from its beginning.
TEST_P(ResumeText, after_a_step_that_was_cut_off_in_its_second_micro_batch_gives_the_same_bits) {
  for (const int64_t workers : {1, 2}) {
    const auto test = resumable(workers);
    const ToyOutcome whole = test->start();
    const int64_t cut_off = whole.steps / 2;
    test->cut_off = {cut_off, std::min<int64_t>(whole.most_micro_batches, 2)};
    EXPECT_EQ(whole.most_micro_batches > 1, test->run.task.task.data.batching != "columns") << "accumulates";
    EXPECT_THROW(test->start(), CutOff);
    test->cut_off = {};
    const ToyOutcome rest = test->start(cut_off);
    EXPECT_EQ(rest.parameters, whole.parameters) << workers;
    EXPECT_EQ(rest.weights_sha256, whole.weights_sha256);
    EXPECT_EQ(rest.evaluations.back(), whole.evaluations.back());
  }
}

}  // namespace
}  // namespace mlbench::train::test
