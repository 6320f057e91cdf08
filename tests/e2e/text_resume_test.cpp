// The models over tokens, trained in one process with ranks that are threads, cut off and resumed: carried state,
// dropout, the switch to averaged SGD, loss scaling, and steps of several micro-batches.

#include <gmock/gmock.h>

#include <cmath>

#include "mlbench/data/test_text.h"
#include "mlbench/framework/torch/torch_framework.h"
#include "mlbench/models/model.h"
#include "mlbench/train/toy_test.h"

namespace mlbench {
namespace {

using train::test::CutOff;
using train::test::ToyOutcome;
using train::test::ToyRun;

constexpr int64_t kVocabulary = 64;

struct TextCase {
  const char* name;
  const char* model;
  const char* batching;
  const char* precision;
  int64_t batch_size, global_batch;
};

std::vector<int64_t> lengths(size_t factor, size_t most) {
  std::vector<int64_t> result(37);
  for (size_t i = 0; i < result.size(); ++i) result[i] = 1 + static_cast<int64_t>(i * factor % most);
  return result;
}

struct Texts {
  std::vector<dataset::CachedSplit> splits(bool columns) const {
    std::vector<dataset::CachedSplit> both(2, columns ? text.split() : pairs.split());
    both[1].name = "test";
    return both;
  }
  data::test::Text text{700, kVocabulary};
  data::test::Pairs pairs{lengths(5, 13), lengths(3, 11), kVocabulary};
};

// The models' own dropouts and penalties stay as they are.
spec::TaskSpec task_of(const TextCase& test) {
  spec::TaskSpec task;
  task.name = test.name;
  task.loss = "token_cross_entropy";
  task.model = {test.model, {{"size", "tiny"}}};
  task.batch_size = test.batch_size;
  task.global_batch = test.global_batch;
  task.epochs = 6;
  task.data.classes = kVocabulary;
  task.data.batching = test.batching;
  task.data.bptt = 12;
  task.data.bptt_deviation = 3;
  task.data.evaluation_batch = 5;
  task.data.length_multiple = 2;
  task.evaluation.metrics = {"Perplexity"};
  task.goal.metric = "Perplexity";
  task.goal.higher_is_better = false;
  return task;
}

class TextResume : private Texts, public ToyRun {
 public:
  explicit TextResume(const TextCase& test)
      : ToyRun(
            [test, this](int rank) {
              framework::FrameworkOptions options;
              options.model = models::describe_model(run.task.task);
              options.rank = rank;
              options.precision = test.precision;
              auto framework = framework::torch_framework::make(options);
              return framework;
            },
            splits(std::string(test.batching) == "columns")) {
    run.task.task = task_of(test);
    run.precision = test.precision;
    run.checkpoint.every_steps = 1;
  }
};

void expect_same(const ToyOutcome& rest, const ToyOutcome& whole, int64_t step) {
  SCOPED_TRACE(testing::Message() << "resumed at " << step << " of " << whole.steps);
  EXPECT_EQ(rest.parameters, whole.parameters);
  EXPECT_EQ(rest.weights_sha256, whole.weights_sha256);
  EXPECT_EQ(rest.evaluations.back(), whole.evaluations.back());
  EXPECT_EQ(rest.averages, whole.averages);
  EXPECT_EQ(rest.skipped_steps, whole.skipped_steps);
}

// Rates so high that the validation loss soon has no new best.
TEST(AwdLstm, ResumesBeforeAtAndBehindTheSwitchToAveragedSgdWithTheSameBits) {
  for (const int64_t workers : {1, 2}) {
    TextResume test({"text", "awd-lstm", "columns", "float32", 6 / workers, 0});
    test.run.workers = workers;
    test.run.task.task.optimizer = {"centralized_sgd", 20, {{"clip_norm", 2}, {"averaging_patience", 1}}};
    const ToyOutcome whole = test.start();
    ASSERT_TRUE(whole.averages) << "no evaluation without a new best";
    ASSERT_TRUE(whole.averaged_from);
    const int64_t from = *whole.averaged_from;
    ASSERT_LT(from + 4, whole.steps);
    for (const auto& [loss, perplexity] : whole.evaluations) ASSERT_TRUE(std::isfinite(perplexity)) << loss;
    for (const int64_t step : {from - 2, from, from + 1, from + 4, whole.steps - 1}) {
      expect_same(test.start(step), whole, step);
    }
    // Nothing is left of a step behind the switch that is cut off.
    test.cut_off = {from + 3, 1};
    EXPECT_THROW(test.start(from), CutOff);
    test.cut_off = {};
    expect_same(test.start(from + 3), whole, from + 3);
  }
}

// In real float16 the gradient of a token's logits is S times less than 1, or that divided by the tokens of the step.
TEST(Fp16, AnOverflowIsSeenWhereTheSumIsDividedBehindTheExchange) {
  for (const bool behind : {false, true}) {
    SCOPED_TRACE(behind);
    TextResume test({"text", "transformer", "tokens", "fp16", 16, 96});
    test.run.workers = 2;
    test.run.task.task.epochs = 2;
    test.run.task.task.loss_divisor = behind ? "weight_after_sum" : "weight";
    test.run.task.task.optimizer = {"centralized_adam", 2e-3, {{"loss_scale", 1 << 17}}};
    const ToyOutcome outcome = test.start();
    EXPECT_EQ(outcome.skipped_steps > 0, behind) << outcome.skipped_steps;
    EXPECT_LT(outcome.skipped_steps, outcome.steps);
    for (const auto& [loss, perplexity] : outcome.evaluations) EXPECT_TRUE(std::isfinite(perplexity)) << loss;
  }
}

class Accumulation : public testing::TestWithParam<TextCase> {};
INSTANTIATE_TEST_SUITE_P(Models, Accumulation,
                         testing::Values(TextCase{"gnmt", "gnmt", "sentences", "float32", 3, 18},
                                         TextCase{"transformer", "transformer", "tokens", "float32", 16, 96},
                                         TextCase{"transformer_fp16", "transformer", "tokens", "fp16", 16, 96}),
                         [](const auto& one) { return std::string(one.param.name); });

// Dropout masks are numbered within the step, so the second micro-batch gets the same ones again.
TEST_P(Accumulation, AStepCutOffInItsSecondMicroBatchIsTakenAgainWithTheSameBits) {
  for (const int64_t workers : {1, 2}) {
    TextResume test(GetParam());
    test.run.workers = workers;
    test.run.task.task.epochs = 2;
    test.run.task.task.label_smoothing = 0.1;
    test.run.task.task.optimizer = {"centralized_adam", 2e-3, {{"clip_norm", 5}}};
    // The scale is so high that steps are skipped first, and falls and grows within the run.
    if (std::string(GetParam().precision) == "fp16") {
      test.run.task.task.optimizer.options.update(
          {{"loss_scale", 1 << 24}, {"loss_scale_interval", 3}, {"loss_scale_growth", 2}, {"loss_scale_backoff", 0.5}});
    }
    const ToyOutcome whole = test.start();
    ASSERT_GT(whole.most_micro_batches, 2);
    ASSERT_GT(whole.steps, 4);
    EXPECT_EQ(whole.skipped_steps > 0, std::string(GetParam().precision) == "fp16") << whole.skipped_steps;
    for (const int64_t step : {whole.steps / 2, whole.steps / 2 + 1}) {
      test.cut_off = {step, 2};
      EXPECT_THROW(test.start(), CutOff);
      test.cut_off = {};
      expect_same(test.start(step), whole, step);
    }
  }
}

}  // namespace
}  // namespace mlbench
