#include "mlbench/framework/tensorflow/factory.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/framework/contract_test.h"
#include "mlbench/framework/tensors/flat.h"
#include "mlbench/framework/token_batch_test.h"
#include "mlbench/framework/torch/torch_framework.h"
#include "mlbench/models/chain.h"
#include "mlbench/models/smooth_test.h"
#include "mlbench/spec/task.h"

namespace mlbench::framework::tensorflow_framework {
namespace {

using contract::step;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

FrameworkOptions options_of(models::ModelDescription model) {
  FrameworkOptions options;
  options.model = std::move(model);
  options.threads = 2;
  return options;
}

// The model of an official task, or of one with some choices changed.
models::ModelDescription model_of(const char* task, const std::vector<spec::Override>& overrides = {}) {
  return models::describe_model(spec::find_task(task, "", "", overrides).task);
}

constexpr int64_t kWords = 37;

// The model of a task over tokens in another size, for few words.
models::ModelDescription text_model(const char* name, const char* size) {
  spec::TaskSpec task = spec::find_task(name, "", "", {{"model.size", size}}).task;
  task.data.classes = kWords;
  return models::describe_model(task);
}

struct Samples {
  Samples(const models::ModelDescription& model, int64_t count) : shape(model.input_shape) {
    RandomSequence random(5);
    for (int64_t i = 0; i < count * volume_of(shape); ++i) features.push_back(static_cast<float>(random.normal()));
    const auto classes = static_cast<uint64_t>(std::max<int64_t>(2, model.outputs));
    for (int64_t i = 0; i < count; ++i) labels.push_back(static_cast<int64_t>(random.below(classes)));
  }
  BatchView view() const {
    return samples_view(features.data(), labels.data(), shape, static_cast<int64_t>(labels.size()));
  }
  std::vector<int64_t> shape;
  std::vector<float> features;
  std::vector<int64_t> labels;
};

at::Tensor part_of(const BufferView& flat, const FlatRange& range) {
  return flat_tensor(flat).narrow(0, range.offset, range.count).to(at::kDouble);
}

// Compares each tensor of two flat buffers by the norm of the difference; those under 64 elements are pooled.
void expect_same_tensors(Framework& mine, Framework& reference, bool trainable, double tolerance) {
  const auto flat = [&](Framework& one) { return trainable ? one.gradients() : one.buffers(); };
  const double largest = flat_tensor(flat(reference)).norm().item<double>();
  double differences = 0, norms = 0;
  for (const FlatRange& range : mine.layout().ranges) {
    if (range.trainable != trainable) continue;
    const at::Tensor expected = part_of(flat(reference), range);
    const double difference = (part_of(flat(mine), range) - expected).norm().item<double>();
    const double norm = expected.norm().item<double>();
    if (range.count < 64) {
      differences += difference * difference;
      norms += norm * norm;
    } else {
      // The gradient of a bias before a batch norm is zero except for rounding.
      EXPECT_LE(difference, tolerance * std::max(norm, 1e-3 * largest)) << range.name;
    }
  }
  EXPECT_LE(std::sqrt(differences), tolerance * std::sqrt(norms) + 1e-12) << "tensors under 64 elements";
}

// The framework torch starts from the same parameters, with the same masks.
void expect_steps_of_torch(const FrameworkOptions& options, double tolerance, int steps) {
  const auto mine = make(options), reference = torch_framework::make(options);
  mine->initialise();
  reference->initialise();
  const Samples samples(options.model, 10);
  for (int number = 0; number < steps; ++number) {
    const double loss = step(*mine, samples.view(), number), expected = step(*reference, samples.view(), number);
    EXPECT_NEAR(loss, expected, 1e-5 * expected) << "step " << number;
    expect_same_tensors(*mine, *reference, true, tolerance);
    expect_same_tensors(*mine, *reference, false, tolerance);
    flat_tensor(reference->parameters()).sub_(flat_tensor(reference->gradients()), 0.05);
    flat_tensor(mine->parameters()).copy_(flat_tensor(reference->parameters()));
  }
}

TEST(TensorFlowFramework, LossAndGradientsOfTasksEqualTorchPerTensor) {
  for (const auto& [name, model] : {std::pair{"2a", model_of("2a")},
                                    {"mnist", model_of("mnist")},
                                    {"fashion-mnist", model_of("fashion-mnist")},
                                    {"1a", model_of("1a")},
                                    {"1a, version v2", model_of("1a", {{"model.version", "v2"}})},
                                    {"1a, version v2-mlbench", model_of("1a", {{"model.version", "v2-mlbench"}})},
                                    {"1a-tf", model_of("1a-tf")},
                                    {"1a, depth 44", model_of("1a", {{"model.depth", "44"}})}}) {
    SCOPED_TRACE(name);
    expect_steps_of_torch(options_of(models::smooth(model)), 1e-4, 2);
  }
}

// With ReLU, values next to the kink may fall on different sides; a shallow network has few of them.
TEST(TensorFlowFramework, ReluMaxPoolAndDropoutEqualTorchPerTensor) {
  expect_steps_of_torch(options_of(model_of("mnist")), 1e-4, 2);
  FrameworkOptions options = options_of(model_of("1a", {{"model.depth", "8"}}));
  options.rank = 3;
  expect_steps_of_torch(options, 1e-2, 1);
}

// Kinds of layers and options of theirs that no small official task has.
TEST(TensorFlowFramework, OtherLayersEqualTorchPerTensor) {
  const auto images = [] { return models::Chain({3, 14, 14}).conv2d_same("conv", 16, 3).batch_norm2d("bn"); };
  std::vector<models::ModelDescription> all;
  for (const char* pool : {"max_pool2d", "avg_pool2d"}) {
    all.push_back(images().pool2d(pool, {.kernel = 3, .stride = 2, .padding = 1}).flatten().linear("fc", 3).finish());
  }
  all.push_back(images().adaptive_avg_pool2d(5).flatten().linear("fc", 3).finish());
  all.push_back(images().global_avg_max_pool2d().linear("fc", 3).finish());
  all.push_back(images().dropout(0.25).activation("softplus").global_avg_pool2d().linear("fc", 3).finish());
  all.push_back(models::Chain({20}).linear_without_bias("a", 9).activation("softplus").linear("b", 3).finish());
  for (const models::ModelDescription& model : all) {
    SCOPED_TRACE(model.layers[model.layers.size() - 3].kind);
    expect_steps_of_torch(options_of(model), 1e-5, 2);
  }
}

// Batches of other lengths, with states that go on, as task 3a has them.
TEST(TensorFlowFramework, AwdLstmEqualsTorchPerTensor) {
  for (const auto& [size, smoothing] : {std::pair{"tiny", 0.0}, {"tiny", 0.1}, {"small", 0.0}}) {
    SCOPED_TRACE(size);
    FrameworkOptions options = options_of(text_model("3a", size));
    options.model.loss.label_smoothing = smoothing;
    options.rank = 1;
    const auto mine = make(options), reference = torch_framework::make(options);
    mine->initialise();
    reference->initialise();
    int64_t first = 0;
    for (const int64_t positions : {9, 1, 4, 9}) {
      TokenBatch batch = language_batch(options.model.outputs, positions, 6, first);
      batch.continues = first > 0;
      const double loss = step(*mine, batch.view(), first), expected = step(*reference, batch.view(), first);
      EXPECT_NEAR(loss, expected, 1e-5 * expected) << positions << " positions";
      EXPECT_NEAR(mine->metric_sums().nll, reference->metric_sums().nll, 1e-5 * reference->metric_sums().nll);
      expect_same_tensors(*mine, *reference, true, 1e-4);
      flat_tensor(reference->parameters()).sub_(flat_tensor(reference->gradients()), 0.5);
      flat_tensor(mine->parameters()).copy_(flat_tensor(reference->parameters()));
      first += positions;
    }
    const std::vector<float> state = mine->carried_state();
    EXPECT_THAT(state, ::testing::Pointwise(::testing::FloatNear(1e-5), reference->carried_state()));
  }
}

void expect_translator_of_torch(const models::ModelDescription& model) {
  FrameworkOptions options = options_of(model);
  options.rank = 1;
  const auto mine = make(options), reference = torch_framework::make(options);
  mine->initialise();
  reference->initialise();
  int64_t number = 0;
  for (const int64_t words : {5, 2, 19}) {
    const TokenBatch batch =
        translation_batch({sentence_pair(kWords, words, words + 3, 1), sentence_pair(kWords, 7, 1, 2)});
    const double loss = step(*mine, batch.view(), number), expected = step(*reference, batch.view(), number);
    EXPECT_NEAR(loss, expected, 1e-5 * expected) << words << " words";
    expect_same_tensors(*mine, *reference, true, 1e-4);
    flat_tensor(reference->parameters()).sub_(flat_tensor(reference->gradients()), 0.05);
    flat_tensor(mine->parameters()).copy_(flat_tensor(reference->parameters()));
    ++number;
  }
}

TEST(TensorFlowFramework, TranslatorsEqualTorchPerTensor) {
  for (const auto& [task, size] : {std::pair{"4a", "tiny"}, {"4a", "small"}, {"4b", "small"}}) {
    SCOPED_TRACE(std::string(task) + " " + size);
    expect_translator_of_torch(text_model(task, size));
  }
}

// The words of `sources` that `framework` writes greedily, by position.
std::vector<std::vector<int64_t>> translate(Framework& framework, const TokenBatch& sources) {
  constexpr int64_t kBegin = 2;
  const auto decoder = framework.make_decoder();
  decoder->start(sources.view(), 1);
  std::vector<std::vector<int64_t>> words = {std::vector<int64_t>(static_cast<size_t>(sources.samples), kBegin)};
  for (int position = 0; position < 12; ++position) {
    const std::span<const float> found = decoder->step(words.back());
    std::vector<int64_t> next;
    for (size_t row = 0; row < words.back().size(); ++row) {
      next.push_back(std::ranges::max_element(found.subspan(row * kWords, kWords)) - found.begin() -
                     static_cast<int64_t>(row) * kWords);
    }
    words.push_back(next);
  }
  return words;
}

class TensorFlowTranslations : public ::testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Tasks, TensorFlowTranslations, ::testing::Values("4a", "4b"));

TEST_P(TensorFlowTranslations, AreThoseOfTorch) {
  const FrameworkOptions options = options_of(text_model(GetParam(), "small"));
  const auto mine = make(options), reference = torch_framework::make(options);
  reference->initialise();
  const TokenBatch batch = translation_batch(
      {sentence_pair(kWords, 5, 7, 1), sentence_pair(kWords, 9, 3, 2), sentence_pair(kWords, 1, 6, 3)});
  for (int number = 0; number < 30; ++number) {
    step(*reference, batch.view(), number);
    flat_tensor(reference->parameters()).sub_(flat_tensor(reference->gradients()), 0.1);
  }
  flat_tensor(mine->parameters()).copy_(flat_tensor(reference->parameters()));
  const std::vector<std::vector<int64_t>> words = translate(*mine, batch);
  EXPECT_EQ(words, translate(*reference, batch));
  EXPECT_GT(std::set(words.begin(), words.end()).size(), 2U) << "more than the same words again and again";
  // An evaluation between two translations leaves nothing behind.
  mine->forward(batch.view(), Mode::kEvaluate);
  EXPECT_EQ(translate(*mine, batch), words);
}

// Trains for `steps` steps of plain SGD, and returns the loss of each.
std::vector<double> train(Framework& framework, const Samples& samples, int steps) {
  framework.initialise();
  std::vector<double> losses;
  for (int number = 0; number < steps; ++number) {
    losses.push_back(step(framework, samples.view(), number));
    flat_tensor(framework.parameters()).sub_(flat_tensor(framework.gradients()), 0.02);
  }
  return losses;
}

TEST(TensorFlowFramework, TrainsAsTorchDoes) {
  const FrameworkOptions options = options_of(models::smooth(model_of("1a")));
  const Samples samples(options.model, 32);
  const std::vector<double> losses = train(*make(options), samples, 20);
  const std::vector<double> expected = train(*torch_framework::make(options), samples, 20);
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-3) << "step " << i;
  EXPECT_LT(losses.back(), losses.front());
}

TEST(TensorFlowFramework, TheSameStartGivesTheSameWeights) {
  const FrameworkOptions options = options_of(model_of("1a", {{"model.depth", "14"}}));
  const Samples samples(options.model, 32);
  std::set<std::string> hashes;
  for (int repeat = 0; repeat < 3; ++repeat) {
    const auto framework = make(options);
    train(*framework, samples, 3);
    hashes.insert(models::weights_sha256(framework->layout(), values_of(framework->parameters()),
                                         values_of(framework->buffers())));
  }
  EXPECT_EQ(hashes.size(), 1U);
}

TEST(TensorFlowLosses, BinaryCrossEntropyByHand) { contract::expect_logistic_regression_by_hand(make); }
TEST(TensorFlowLosses, MeanSquaredErrorWithPenaltiesByHand) { contract::expect_linear_regression_by_hand(make); }
TEST(TensorFlowLosses, GradientsEqualDifferences) { contract::expect_gradients_equal_differences(make); }
TEST(TensorFlowLosses, LargeLogitsGiveFiniteLosses) { contract::expect_finite_losses_of_large_logits(make); }

// Several threads for operations: the same gradients, each told once, by one thread at a time.
void expect_the_same_at_once(FrameworkOptions options, const BatchView& batch, int inter_op_threads) {
  SCOPED_TRACE(inter_op_threads);
  const auto alone = make(options);
  options.inter_op_threads = inter_op_threads;
  const auto together = make(options);
  alone->initialise();
  together->initialise();
  std::multiset<int64_t> told;
  together->on_gradient_ready([&](int64_t first, int64_t) { told.insert(first); });
  const double loss = step(*alone, batch);
  EXPECT_NEAR(step(*together, batch), loss, 1e-6 * loss);
  expect_same_tensors(*together, *alone, true, 1e-5);
  size_t parameters = 0;
  for (const FlatRange& range : together->layout().ranges) {
    if (!range.trainable) continue;
    ++parameters;
    EXPECT_EQ(told.count(range.offset), 1U) << range.name;
  }
  EXPECT_EQ(told.size(), parameters);
}

TEST(TensorFlowFramework, OperationsMayRunAtOnce) {
  const FrameworkOptions options = options_of(models::smooth(model_of("1a", {{"model.depth", "8"}})));
  const Samples samples(options.model, 6);
  const TokenBatch batch = language_batch(kWords, 6, 4);
  const TokenBatch sentences = translation_batch({sentence_pair(kWords, 5, 7, 1), sentence_pair(kWords, 9, 3, 2)});
  for (const int inter_op_threads : {2, 4}) {
    expect_the_same_at_once(options, samples.view(), inter_op_threads);
    // Its embedding is tied to the softmax: two layers have parts of one gradient.
    expect_the_same_at_once(options_of(text_model("3a", "tiny")), batch.view(), inter_op_threads);
    for (const char* task : {"4a", "4b"}) {
      expect_the_same_at_once(options_of(text_model(task, "tiny")), sentences.view(), inter_op_threads);
    }
  }
}

TEST(TensorFlowFramework, BackwardThrowsWhatTheCallbackThrows) {
  for (const int inter_op_threads : {1, 2}) {
    FrameworkOptions options = options_of(model_of("1a", {{"model.depth", "8"}}));
    options.inter_op_threads = inter_op_threads;
    const auto framework = make(options);
    framework->initialise();
    const Samples samples(options.model, 2);
    framework->on_gradient_ready([](int64_t, int64_t) { throw CommError("peer 3 was lost"); });
    EXPECT_THAT([&] { step(*framework, samples.view()); }, ThrowsMessage<CommError>("peer 3 was lost"));
    framework->on_gradient_ready({});
    EXPECT_GT(step(*framework, samples.view()), 0) << "the next step works";
  }
}

// A forward pass whose backward pass never comes leaves nothing behind.
TEST(TensorFlowFramework, AForwardPassMayStayAlone) {
  const FrameworkOptions options = options_of(model_of("mnist"));
  const auto framework = make(options), other = make(options);
  framework->initialise();
  other->initialise();
  const Samples samples(options.model, 3);
  framework->begin_step(0);
  framework->forward(samples.view(), Mode::kTrain);
  EXPECT_EQ(step(*framework, samples.view()), step(*other, samples.view()));
  EXPECT_TRUE(at::equal(flat_tensor(framework->gradients()), flat_tensor(other->gradients())));
}

TEST(TensorFlowFramework, SaysWhatItUsesAndRefusesWhatItLacks) {
  FrameworkOptions options = options_of(model_of("mnist"));
  EXPECT_EQ(make(options)->effective()["layout"], "nhwc");
  EXPECT_THAT(make(options)->versions()["tensorflow"].get<std::string>(), HasSubstr("."));
  EXPECT_THAT(layers(), ::testing::Contains("batch_norm2d"));
  options.precision = "bf16";
  EXPECT_THAT([&] { make(options); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("'bf16'"), HasSubstr("valid: float32"))));
  options = options_of(models::Chain({20}).linear("a", 5).activation("gelu").finish());
  EXPECT_THAT([&] { make(options); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("no layer 'gelu'"), HasSubstr("it has: conv2d"))));
}

}  // namespace
}  // namespace mlbench::framework::tensorflow_framework
