// The loop over text, with models small enough to know what must come out: ranks, micro-batches and resumed runs all
// give what one batch gives.

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <future>
#include <numeric>

#include "mlbench/base/errors.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/data/test_text.h"
#include "mlbench/data/workload.h"
#include "mlbench/optim/factory.h"
#include "mlbench/record/spool.h"
#include "mlbench/train/train.h"
#include "mlbench/train/train_test.h"

namespace mlbench::train::test {
namespace {

constexpr int64_t kVocabulary = 200;

std::span<const int64_t> tokens_of(const BatchView& batch, const char* name) {
  const ConstBufferView& values = batch.at(name).values;
  return {static_cast<const int64_t*>(values.data), static_cast<size_t>(values.count)};
}

// One number w for each token, which encoder, decoder and predictions share. The loss of a predicted token y is
// (h - w[y])^2 / 2 with
//   of a translation     h = mean of w over the source + w[token before]
//   of a text            h = w[token before] + h before / 2, carried along the column; gradients end at h before
class ToyFramework final : public framework::Framework {
 public:
  explicit ToyFramework(bool translates) : translates_(translates) {
    models::ModelDescription model;
    model.name = "toy";
    model.parameters.push_back({"w", {kVocabulary}, {models::Initialiser::Kind::kNormal, 0.5}});
    model_ = model;
    layout_ = models::lay_out(model);
    parameters_ = at::zeros({layout_.parameter_elements}, at::kFloat);
    gradients_ = at::zeros({layout_.parameter_elements}, at::kFloat);
    buffers_ = at::zeros({0}, at::kFloat);
  }

  const models::FlatLayout& layout() const override { return layout_; }
  at::Tensor parameters() override { return parameters_; }
  at::Tensor gradients() override { return gradients_; }
  at::Tensor buffers() override { return buffers_; }
  void initialise() override { models::initialise(model_, layout_, 42, framework::values_of(parameters_), {}); }

  void begin_step(int64_t) override { micro_batches_ = 0; }
  void forward(const BatchView& batch, framework::Mode mode) override {
    sums_ = {0, 0, batch.weight};
    slopes_.assign(kVocabulary, 0);
    translates_ ? translate(batch) : continue_text(batch, mode);
    sums_.nll = sums_.loss;
  }
  double loss() override { return sums_.loss / static_cast<double>(sums_.weight); }
  framework::MetricSums metric_sums() override { return sums_; }
  void backward(const framework::BackwardOptions& options) override {
    EXPECT_EQ(options.accumulate, micro_batches_ > 0);
    ++micro_batches_;
    const std::span<float> gradients = framework::values_of(gradients_);
    if (!options.accumulate) std::ranges::fill(gradients, 0.0F);
    for (size_t i = 0; i < slopes_.size(); ++i) {
      gradients[i] += static_cast<float>(slopes_[i] * options.scale / static_cast<double>(sums_.weight));
    }
    if (options.last) most_micro_batches = std::max(most_micro_batches, micro_batches_);
    if (options.last && ready_) ready_(0, layout_.parameter_elements);
  }
  void zero_gradients() override {
    ++empty_steps;
    gradients_.zero_();
    if (ready_) ready_(0, layout_.parameter_elements);
  }
  std::span<const float> outputs() override { throw UserError("a loss over tokens has no outputs"); }
  std::vector<float> carried_state() override { return carried_; }
  void set_carried_state(std::span<const float> state, int64_t sequences) override {
    EXPECT_EQ(std::ssize(state), sequences);
    carried_.assign(state.begin(), state.end());
  }
  void on_gradient_ready(GradientReady callback) override { ready_ = std::move(callback); }
  Json effective() const override { return {{"name", "toy"}}; }
  Json versions() const override { return Json::object(); }

  int64_t most_micro_batches = 0, empty_steps = 0;

 private:
  double w(int64_t token) { return framework::values_of(parameters_)[static_cast<size_t>(token)]; }
  // The loss of `target` after `h`; gives dl/dh.
  double predict(double h, int64_t target) {
    const double error = h - w(target);
    sums_.loss += error * error / 2;
    slopes_[static_cast<size_t>(target)] -= error;
    return error;
  }
  void translate(const BatchView& batch) {
    const auto source = tokens_of(batch, "source"), target_in = tokens_of(batch, "target_in");
    const auto target_out = tokens_of(batch, "target_out");
    const auto source_lengths = tokens_of(batch, "source_lengths"), target_lengths = tokens_of(batch, "target_lengths");
    const size_t source_width = source.size() / source_lengths.size();
    const size_t target_width = target_in.size() / target_lengths.size();
    for (size_t i = 0; i < source_lengths.size(); ++i) {
      const auto sentence = source.subspan(i * source_width, static_cast<size_t>(source_lengths[i]));
      double context = 0, context_slope = 0;
      for (const int64_t token : sentence) context += w(token) / static_cast<double>(sentence.size());
      for (size_t j = 0; j < static_cast<size_t>(target_lengths[i]); ++j) {
        const int64_t before = target_in[i * target_width + j];
        const double slope = predict(context + w(before), target_out[i * target_width + j]);
        slopes_[static_cast<size_t>(before)] += slope;
        context_slope += slope;
      }
      for (const int64_t token : sentence) {
        slopes_[static_cast<size_t>(token)] += context_slope / static_cast<double>(sentence.size());
      }
    }
  }
  void continue_text(const BatchView& batch, framework::Mode mode) {
    const auto tokens = tokens_of(batch, "tokens"), targets = tokens_of(batch, "targets");
    const auto columns = static_cast<size_t>(batch.samples);
    std::vector<float>& state = mode == framework::Mode::kTrain ? carried_ : evaluated_;
    if (!batch.continues) state.assign(columns, 0);
    ASSERT_EQ(state.size(), columns);
    for (size_t i = 0; i < tokens.size(); ++i) {
      float& h = state[i % columns];
      h = static_cast<float>(w(tokens[i]) + h / 2.0);
      slopes_[static_cast<size_t>(tokens[i])] += predict(h, targets[i]);
    }
  }

  const bool translates_;
  models::ModelDescription model_;
  models::FlatLayout layout_;
  at::Tensor parameters_, gradients_, buffers_;
  GradientReady ready_;
  int64_t micro_batches_ = 0;
  framework::MetricSums sums_;
  std::vector<double> slopes_;  // of the sum of losses
  std::vector<float> carried_, evaluated_;
};

struct TextOutcome {
  std::vector<float> parameters;
  std::vector<std::pair<double, double>> evaluations;  // loss, perplexity
  std::vector<double> epoch_losses;
  int64_t steps = 0, tokens = 0;  // of all ranks
  int64_t most_micro_batches = 0, empty_steps = 0;
};

// A run over 37 pairs, or a text of 1,500 tokens.
class TextRun {
 public:
  explicit TextRun(const std::string& batching) : text_(1500, kVocabulary) {
    std::vector<int64_t> source_lengths(37), target_lengths(37);
    for (size_t i = 0; i < 37; ++i) {
      source_lengths[i] = 1 + static_cast<int64_t>(i * 5 % 13);
      target_lengths[i] = 1 + static_cast<int64_t>(i * 3 % 11);
    }
    pairs_ = std::make_unique<data::test::Pairs>(source_lengths, target_lengths, kVocabulary);
    run.name = "text";
    run.framework = "toy";
    run.run_dir = folder_.path().string();
    run.task.hash = "hash of the task";
    spec::TaskSpec& task = run.task.task;
    task.name = "text";
    task.loss = "token_cross_entropy";
    task.data.batching = batching;
    task.data.bptt = 12;
    task.data.bptt_deviation = 3;
    task.data.short_probability = 0.2;
    task.data.length_multiple = 2;
    task.data.evaluation_batch = 5;
    task.epochs = 3;
    task.optimizer = {"centralized_sgd", 0.5, {{"momentum", 0.5}}};
    task.evaluation.metrics = {"Perplexity"};
    task.goal.metric = "Perplexity";
    task.goal.higher_is_better = false;
  }

  TextOutcome start(std::optional<int64_t> resume_step = std::nullopt) {
    const bool columns = run.task.task.data.batching == "columns";
    std::vector<dataset::CachedSplit> splits(2, columns ? text_.split() : pairs_->split());
    splits[1].name = "test";
    dataset::DatasetDescription description;
    description.fingerprint = "known";
    const dataset::PreparedDataset data(description, nullptr, splits, "made", "");

    ++segment_;
    auto comms = comm::make_in_process_group(static_cast<int>(run.workers), std::chrono::seconds(60));
    std::vector<std::future<TextOutcome>> ranks;
    for (auto& comm : comms) {
      ranks.push_back(std::async(std::launch::async, [&, given = std::move(comm)]() mutable {
        const auto own = std::move(given);
        return run_rank(*own, data, !columns, resume_step);
      }));
    }
    for (auto& rank : ranks) rank.wait();
    TextOutcome all;
    for (auto& rank : ranks) {
      TextOutcome outcome = rank.get();
      if (all.parameters.empty()) {
        all = std::move(outcome);
        continue;
      }
      EXPECT_EQ(outcome.parameters, all.parameters) << "all ranks have the same";
      EXPECT_EQ(outcome.steps, all.steps);
      all.tokens += outcome.tokens;
      all.most_micro_batches = std::max(all.most_micro_batches, outcome.most_micro_batches);
      all.empty_steps += outcome.empty_steps;
    }
    return all;
  }

  const data::test::Pairs& pairs() const { return *pairs_; }
  spec::RunSpec run;

 private:
  TextOutcome run_rank(comm::Communicator& comm, const dataset::PreparedDataset& data, bool translates,
                       std::optional<int64_t> resume_step) const {
    const ManualClock clock;
    ToyFramework framework(translates);
    const auto optimizer = optim::make_optimizer(run.task.task.optimizer, framework.layout(), comm);
    track::Recorder recorder({.run_dir = run.run_dir, .segment = segment_, .rank = comm.rank()}, clock);
    TextOutcome outcome;
    outcome.steps = train({run, comm, framework, *optimizer, data, recorder, clock, resume_step}).steps;
    const record::RankSpool spool = record::read_spool(run.run_dir, segment_, comm.rank());
    for (const record::StepRecord& step : spool.steps) outcome.tokens += static_cast<int64_t>(step.samples);
    if (comm.rank() == 0) {
      for (const Json& metrics : values_of<Json>(spool, "evaluation", "metrics")) {
        outcome.evaluations.emplace_back(metrics.at("loss").get<double>(), metrics.at("Perplexity").get<double>());
      }
      outcome.epoch_losses = values_of<double>(spool, "epoch", "train_loss");
    }
    const std::span<const float> parameters = framework::values_of(framework.parameters());
    outcome.parameters.assign(parameters.begin(), parameters.end());
    outcome.most_micro_batches = framework.most_micro_batches;
    outcome.empty_steps = framework.empty_steps;
    return outcome;
  }

  const TemporaryFolder folder_;
  const data::test::Text text_;
  std::unique_ptr<data::test::Pairs> pairs_;
  int64_t segment_ = 0;
};

void expect_near(const std::vector<float>& values, const std::vector<float>& expected) {
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-5) << i;
}

void expect_near(const TextOutcome& outcome, const TextOutcome& expected) {
  expect_near(outcome.parameters, expected.parameters);
  EXPECT_EQ(outcome.steps, expected.steps);
  EXPECT_EQ(outcome.tokens, expected.tokens);
  ASSERT_EQ(outcome.evaluations.size(), expected.evaluations.size());
  for (size_t i = 0; i < outcome.evaluations.size(); ++i) {
    EXPECT_NEAR(outcome.evaluations[i].first, expected.evaluations[i].first, 1e-5);
    EXPECT_NEAR(outcome.evaluations[i].second, expected.evaluations[i].second, 1e-5);
  }
  ASSERT_EQ(outcome.epoch_losses.size(), expected.epoch_losses.size());
  for (size_t i = 0; i < outcome.epoch_losses.size(); ++i) {
    EXPECT_NEAR(outcome.epoch_losses[i], expected.epoch_losses[i], 1e-5);
  }
}

// ---- translation ----------------------------------------------------------------------------------------------------

TextOutcome translate_with(const std::string& batching, int64_t workers, int64_t batch_size, int64_t global_batch) {
  TextRun test(batching);
  test.run.workers = workers;
  test.run.task.task.batch_size = batch_size;
  test.run.task.task.global_batch = global_batch;
  return test.start();
}

TEST(Translation, ranks_and_micro_batches_of_sentences_give_what_one_batch_gives) {
  const TextOutcome one = translate_with("sentences", 1, 9, 9);  // 37 pairs: the last batch of each epoch is of one
  EXPECT_EQ(one.steps, 15);
  EXPECT_EQ(one.most_micro_batches, 1);
  EXPECT_EQ(one.evaluations.size(), 3U);
  EXPECT_LT(one.evaluations.back().first, one.evaluations.front().first) << "it learns";
  for (const int64_t workers : {1, 2, 3}) {
    for (const int64_t batch_size : {1, 2, 9}) {
      SCOPED_TRACE(testing::Message() << workers << " ranks, micro-batches of " << batch_size);
      const TextOutcome outcome = translate_with("sentences", workers, batch_size, 9);
      expect_near(outcome, one);
      const int64_t most = (9 + workers - 1) / workers;
      EXPECT_EQ(outcome.most_micro_batches, (most + batch_size - 1) / batch_size);
      EXPECT_EQ(outcome.empty_steps, 3 * (workers - 1)) << "in the last step of each epoch";
    }
  }
}

TEST(Translation, so_do_batches_by_tokens) {
  const TextOutcome one = translate_with("tokens", 1, 16, 64);
  EXPECT_GT(one.most_micro_batches, 1);
  for (const int64_t workers : {2, 3, 5}) {
    SCOPED_TRACE(workers);
    expect_near(translate_with("tokens", workers, 16, 64), one);
  }
}

// Five tokens of one pair on 3 ranks.
TEST(Translation, a_rank_without_tokens_adds_nothing) {
  const TextOutcome outcome = translate_with("sentences", 3, 12, 36);
  EXPECT_EQ(outcome.empty_steps, 3 * 2);
  expect_near(outcome, translate_with("sentences", 1, 36, 36));
}

TEST(Translation, of_steps_that_count_the_tokens_of_the_targets) {
  const TextOutcome one = translate_with("sentences", 2, 4, 0);
  int64_t tokens = 0;
  for (size_t i = 0; i < 37; ++i) tokens += 2 + static_cast<int64_t>(i * 3 % 11);
  EXPECT_EQ(one.tokens, 3 * tokens);
}

// One step of each kind from the same start: the gradient is the sum of losses over sentences instead of tokens.
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
    const TextOutcome outcome = test.start();
    std::vector<float> difference(start.size());
    std::ranges::transform(outcome.parameters, start, difference.begin(), std::minus<>());
    return std::pair(difference, outcome.tokens);
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

// ---- a text ---------------------------------------------------------------------------------------------------------

TextOutcome continue_with(int64_t workers, int64_t columns) {
  TextRun test("columns");
  test.run.workers = workers;
  test.run.task.task.batch_size = columns;
  return test.start();
}

TEST(LanguageModel, ranks_give_what_one_batch_of_all_columns_gives) {
  const TextOutcome one = continue_with(1, 6);  // 249 predictions in each column
  EXPECT_EQ(one.tokens, 3 * 6 * 249);
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

class ResumeText : public testing::TestWithParam<ResumeCase> {};
INSTANTIATE_TEST_SUITE_P(Kinds, ResumeText,
                         testing::Values(ResumeCase{"columns", 3, 0}, ResumeCase{"sentences", 2, 9},
                                         ResumeCase{"tokens", 16, 64}),
                         [](const auto& one) { return std::string(one.param.batching); });

TEST_P(ResumeText, at_any_step_gives_the_same_bits) {
  for (const int64_t workers : {1, 2}) {
    TextRun test(GetParam().batching);
    test.run.workers = workers;
    test.run.task.task.batch_size = GetParam().batch_size;
    test.run.task.task.global_batch = GetParam().global_batch;
    test.run.task.task.epochs = 2;
    test.run.checkpoint.every_steps = 1;
    const TextOutcome whole = test.start();
    ASSERT_GT(whole.steps, 4);
    for (int64_t step = 1; step < whole.steps; step += std::max<int64_t>(whole.steps / 8, 1)) {
      const TextOutcome rest = test.start(step);
      EXPECT_EQ(rest.parameters, whole.parameters) << "resumed at " << step << " of " << whole.steps;
      EXPECT_EQ(rest.evaluations.back(), whole.evaluations.back());
      EXPECT_NEAR(rest.epoch_losses.back(), whole.epoch_losses.back(), 1e-12);
    }
  }
}

}  // namespace
}  // namespace mlbench::train::test
