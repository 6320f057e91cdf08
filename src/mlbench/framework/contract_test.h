#pragma once

// Checks and helpers that the tests of every framework that computes share.

#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/random.h"
#include "mlbench/base/shape.h"
#include "mlbench/framework/framework.h"
#include "mlbench/framework/sample_batch_test.h"
#include "mlbench/framework/tensors/flat.h"
#include "mlbench/models/chain.h"

namespace mlbench::framework::contract {

// While an object of this class lives, OpenMP gives one thread, whatever is asked for, as it does inside a parallel
// region or with OMP_THREAD_LIMIT=1.
class OneThreadOnly {
 public:
  OneThreadOnly() : before_(omp_get_max_active_levels()) { omp_set_max_active_levels(0); }
  ~OneThreadOnly() { omp_set_max_active_levels(before_); }
  OneThreadOnly(const OneThreadOnly&) = delete;
  OneThreadOnly& operator=(const OneThreadOnly&) = delete;

 private:
  int before_;
};

// Normal features, and labels of the classes of a model.
struct Samples {
  Samples(const models::ModelDescription& model, int64_t count, uint64_t key = 5)
      : shape(model.input_shape), volume(volume_of(shape)) {
    RandomSequence random(key);
    for (int64_t i = 0; i < count * volume; ++i) features.push_back(static_cast<float>(random.normal()));
    const auto classes = static_cast<uint64_t>(std::max<int64_t>(2, model.outputs));
    for (int64_t i = 0; i < count; ++i) labels.push_back(static_cast<int64_t>(random.below(classes)));
  }
  BatchView view() const { return view(0, static_cast<int64_t>(labels.size())); }
  BatchView view(int64_t first, int64_t count) const {
    return samples_view(features.data() + first * volume, labels.data() + first, shape, count);
  }
  std::vector<int64_t> shape;
  int64_t volume;
  std::vector<float> features;
  std::vector<int64_t> labels;
};

inline models::ModelDescription small_model() {
  models::ModelDescription model = models::Chain({3, 8, 8})
                                       .conv2d_same("conv1", 16, 3)
                                       .batch_norm2d("bn1")
                                       .activation("relu")
                                       .conv2d_same("conv2", 24, 3)
                                       .activation("relu")
                                       .pool2d("max_pool2d", 2)
                                       .flatten()
                                       .linear("fc1", 33)
                                       .activation("relu")
                                       .dropout(0.25)
                                       .linear("fc2", 3)
                                       .finish();
  model.name = "small";
  return model;
}

using Make = std::function<std::unique_ptr<Framework>(const FrameworkOptions&)>;

// Runs one training step without the optimizer, and returns the loss.
inline double step(Framework& framework, const BatchView& batch, int64_t number = 0, double scale = 1,
                   bool accumulate = false) {
  framework.begin_step(number);
  framework.forward(batch, Mode::kTrain);
  const double loss = framework.loss();
  framework.backward({.scale = scale, .accumulate = accumulate});
  return loss;
}

inline FrameworkOptions logistic_options(int64_t dimension, double l2, int threads = 2) {
  FrameworkOptions options;
  options.model = models::Chain({dimension}).linear_without_bias("linear", 1).finish();
  options.model.name = "logistic_regression";
  options.model.l2 = l2;
  options.model.loss.kind = "binary_cross_entropy";
  options.threads = threads;
  return options;
}

inline FrameworkOptions linear_options(int64_t dimension, double l1, double l2) {
  FrameworkOptions options = logistic_options(dimension, l2);
  options.model.name = "linear_regression";
  options.model.l1 = l1;
  options.model.loss.kind = "mean_squared_error";
  return options;
}

// A batch of all rows of one matrix. The result is a view of the arguments.
inline BatchView rows_view(const std::vector<float>& features, const std::vector<int64_t>& labels, int64_t dimension) {
  return samples_view(features.data(), labels.data(), {dimension}, static_cast<int64_t>(labels.size()));
}

// Checks one case that was computed by hand: w = (2, -1); rows (1, 2), (1, 0) with logits 0 and 2; labels 1 and 0;
// lambda 0.1.
//   loss      (ln 2 + ln(1 + e^2)) / 2 + 0.05 * 5
//   gradient  ((0.5 - 1) (1, 2) + (s - 0) (1, 0)) / 2 + 0.1 (2, -1) with s = sigmoid(2)
inline void expect_logistic_regression_by_hand(const Make& make) {
  const auto framework = make(logistic_options(2, 0.1));
  flat_tensor(framework->parameters()).narrow(0, 0, 2).copy_(at::tensor({2.0F, -1.0F}));
  const std::vector<float> features = {1, 2, 1, 0};
  const std::vector<int64_t> labels = {1, 0};
  const double s = 1 / (1 + std::exp(-2.0));
  const double loss = (std::log(2.0) + std::log(1 + std::exp(2.0))) / 2 + 0.25;
  const double gradient[] = {(-0.5 + s) / 2 + 0.2, -0.5 - 0.1};

  EXPECT_NEAR(step(*framework, rows_view(features, labels, 2)), loss, 1e-6);
  EXPECT_NEAR(flat_tensor(framework->gradients())[0].item<float>(), gradient[0], 1e-6);
  EXPECT_NEAR(flat_tensor(framework->gradients())[1].item<float>(), gradient[1], 1e-6);
  const auto probabilities = framework->outputs();
  ASSERT_EQ(probabilities.size(), 2U);
  EXPECT_FLOAT_EQ(probabilities[0], 0.5F);
  EXPECT_FLOAT_EQ(probabilities[1], static_cast<float>(s));

  // Adds the gradient of a quarter of the loss.
  step(*framework, rows_view(features, labels, 2), 0, 0.25, true);
  EXPECT_NEAR(flat_tensor(framework->gradients())[0].item<float>(), 1.25 * gradient[0], 1e-6);
  framework->forward(rows_view(features, labels, 2), Mode::kEvaluate);
  EXPECT_NEAR(framework->loss(), loss, 1e-6);
}

// The same w and rows, with outputs 0 and 2 and targets 1 and -1; penalties 0.2 * 3 and 0.1 / 2 * 5.
//   loss      (1 + 9) / 2 + 0.6 + 0.25
//   gradient  (2 (0 - 1) (1, 2) + 2 (2 + 1) (1, 0)) / 2 + 0.2 (1, -1) + 0.1 (2, -1)
inline void expect_linear_regression_by_hand(const Make& make) {
  const auto framework = make(linear_options(2, 0.2, 0.1));
  flat_tensor(framework->parameters()).narrow(0, 0, 2).copy_(at::tensor({2.0F, -1.0F}));
  const std::vector<float> features = {1, 2, 1, 0};
  const std::vector<int64_t> labels = {1, -1};
  const double loss = 5.85, gradient[] = {2 + 0.2 + 0.2, -2 - 0.2 - 0.1};

  EXPECT_NEAR(step(*framework, rows_view(features, labels, 2)), loss, 1e-6);
  EXPECT_NEAR(flat_tensor(framework->gradients())[0].item<float>(), gradient[0], 1e-6);
  EXPECT_NEAR(flat_tensor(framework->gradients())[1].item<float>(), gradient[1], 1e-6);
  EXPECT_EQ(std::vector<float>(framework->outputs().begin(), framework->outputs().end()), (std::vector<float>{0, 2}));
  const MetricSums sums = framework->metric_sums();
  EXPECT_NEAR(sums.loss, 10, 1e-6) << "without penalties";
  EXPECT_EQ(sums.weight, 2);

  // Adds the gradient of a quarter of the loss, penalties included.
  step(*framework, rows_view(features, labels, 2), 0, 0.25, true);
  EXPECT_NEAR(flat_tensor(framework->gradients())[1].item<float>(), 1.25 * gradient[1], 1e-6);

  // At zero the L1 penalty has no derivative, and 0 stands for it: what remains is (2 (-1) (1, 2) + 2 (1) (1, 0)) / 2.
  flat_tensor(framework->parameters()).zero_();
  EXPECT_NEAR(step(*framework, rows_view(features, labels, 2)), 1, 1e-6);
  EXPECT_NEAR(flat_tensor(framework->gradients())[0].item<float>(), 0, 1e-6);
  EXPECT_NEAR(flat_tensor(framework->gradients())[1].item<float>(), -2, 1e-6);
}

// Compares the gradient of each loss over samples, with each penalty and with both, with central differences.
inline void expect_gradients_equal_differences(const Make& make) {
  constexpr int64_t kDimension = 5, kSamples = 7;
  constexpr double kStep = 0x1p-5;
  RandomSequence random(11);
  std::vector<float> features;
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < kSamples * kDimension; ++i) features.push_back(static_cast<float>(random.normal()));
  for (int64_t i = 0; i < kSamples; ++i) labels.push_back(static_cast<int64_t>(random.below(2)));
  const BatchView batch = rows_view(features, labels, kDimension);
  for (const char* loss : {"cross_entropy", "binary_cross_entropy", "mean_squared_error"}) {
    for (const auto& [l1, l2] : {std::pair{0.0, 0.0}, {0.3, 0.0}, {0.0, 0.2}, {0.3, 0.2}}) {
      SCOPED_TRACE(std::string(loss) + ", l1 " + std::to_string(l1) + ", l2 " + std::to_string(l2));
      FrameworkOptions options = linear_options(kDimension, l1, l2);
      options.model.loss.kind = loss;
      if (options.model.loss.kind == "cross_entropy") {
        options.model = models::Chain({kDimension}).linear("linear", 2).finish();
        options.model.l1 = l1;
        options.model.l2 = l2;
      }
      const auto framework = make(options);
      const at::Tensor parameters = flat_tensor(framework->parameters());
      for (const FlatRange& range : framework->layout().ranges) {
        for (int64_t i = range.offset; i < range.offset + range.count; ++i) {
          // Away from zero, where the L1 penalty has a kink.
          parameters[i] = (random.below(2) == 0 ? -1 : 1) * (0.1 + random.uniform());
        }
      }
      step(*framework, batch);
      const at::Tensor gradients = flat_tensor(framework->gradients()).clone();
      const auto loss_with = [&](int64_t index, double change) {
        const float before = parameters[index].item<float>();
        parameters[index] = before + change;
        framework->forward(batch, Mode::kEvaluate);
        const double value = framework->loss();
        parameters[index] = before;
        return value;
      };
      for (const FlatRange& range : framework->layout().ranges) {
        for (int64_t i = range.offset; i < range.offset + range.count; ++i) {
          const double difference = (loss_with(i, kStep) - loss_with(i, -kStep)) / (2 * kStep);
          EXPECT_NEAR(gradients[i].item<float>(), difference, 1e-4) << range.name << ", element " << i - range.offset;
        }
      }
    }
  }
}

inline void expect_finite_losses_of_large_logits(const Make& make) {
  const auto framework = make(logistic_options(1, 0));
  flat_tensor(framework->parameters()).narrow(0, 0, 1).fill_(500);
  for (const int64_t label : {0, 1}) {
    for (const float x : {-1.0F, 1.0F}) {
      const bool right = (x > 0) == (label == 1);
      EXPECT_FLOAT_EQ(static_cast<float>(step(*framework, rows_view({x}, {label}, 1))), right ? 0 : 500);
      EXPECT_FLOAT_EQ(flat_tensor(framework->gradients())[0].item<float>(), right ? 0 : 1);
    }
  }
}

}  // namespace mlbench::framework::contract
