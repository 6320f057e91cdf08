#pragma once

// Checks and helpers that the tests of every framework that computes share.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/base/shape.h"
#include "mlbench/base/sparse_rows.h"
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

inline double norm_of(const at::Tensor& values) { return values.to(at::kDouble).norm().item<double>(); }

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

// w and the rows are as above, with outputs 0 and 2 and targets 1 and -1; penalties 0.2 * 3 and 0.1 / 2 * 5.
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

// Rows of which about one value in 30 is not zero, dense and sparse; one row has none.
struct TwiceRows {
  TwiceRows(int64_t rows, int64_t dimension, uint64_t key) : dense(static_cast<size_t>(rows * dimension)) {
    RandomSequence random(key);
    for (int64_t i = 0; i < rows; ++i) {
      offsets.push_back(std::ssize(entries));
      labels.push_back(static_cast<int64_t>(random.below(2)));
      for (int64_t j = 0; j < dimension && i != 3; ++j) {
        if (random.below(30) != 0) continue;
        const auto value = static_cast<float>(random.normal());
        entries.push_back({static_cast<int32_t>(j), value});
        dense[static_cast<size_t>(i * dimension + j)] = value;
      }
    }
    offsets.push_back(std::ssize(entries));
  }
  // The rows `rows`, whose labels are the first of `labels`.
  BatchView sparse_view(const std::vector<int64_t>& rows) const {
    BatchView batch;
    batch.weight = std::ssize(rows);
    batch.tensors.push_back({"labels", {batch.weight}, {labels.data(), batch.weight, DType::kInt64}, {}});
    set_sparse_rows(batch, {entries, offsets}, rows);
    return batch;
  }
  std::vector<float> dense;
  std::vector<SparseEntry> entries;
  std::vector<int64_t> offsets, labels;
};

inline FrameworkOptions sparse(FrameworkOptions options) {
  options.sparse_rows = true;
  return options;
}

// Checks loss, gradients and outputs of sparse rows beside those of the same rows, dense, from the same start.
inline void expect_sparse_rows_equal_dense_ones(const Make& make) {
  constexpr double kEps = std::numeric_limits<float>::epsilon();
  constexpr int64_t kRows = 200, kDimension = 300;
  const TwiceRows data(kRows, kDimension, 4);
  std::vector<int64_t> rows(131);
  RandomSequence random(9);
  for (int64_t& row : rows) row = static_cast<int64_t>(random.below(kRows));
  rows[5] = 3;
  const std::vector<int64_t> labels(data.labels.begin(), data.labels.begin() + std::ssize(rows));
  const BatchView dense = gathered_view(rows_view(data.dense, labels, kDimension), data.dense, rows);
  const BatchView batch = data.sparse_view(rows);
  for (const FrameworkOptions& options :
       {logistic_options(kDimension, 0.01), logistic_options(kDimension, 0), linear_options(kDimension, 0.001, 0.01)}) {
    SCOPED_TRACE(options.model.name);
    const auto expected = make(options), ours = make(sparse(options));
    expected->initialise();
    ours->initialise();
    EXPECT_EQ(ours->effective()["layout"], "sparse rows");
    for (const auto& [scale, accumulate] : {std::pair{1.0, false}, {0.25, true}, {0.5, false}}) {
      SCOPED_TRACE(scale);
      const double loss = step(*expected, dense, 0, scale, accumulate);
      EXPECT_NEAR(step(*ours, batch, 0, scale, accumulate), loss, 16 * kEps * loss);
      const at::Tensor gradients = flat_tensor(expected->gradients());
      EXPECT_LE(norm_of(flat_tensor(ours->gradients()) - gradients), 8 * kEps * norm_of(gradients));
      EXPECT_THAT(ours->outputs(), testing::Pointwise(testing::FloatNear(2e-6F), expected->outputs()));
      flat_tensor(expected->parameters()).sub_(gradients, 0.5);
      flat_tensor(ours->parameters()).copy_(flat_tensor(expected->parameters()));
    }
    EXPECT_EQ(ours->metric_sums().weight, std::ssize(rows));
  }
}

inline void expect_sparse_rows_by_any_threads(const Make& make) {
  const TwiceRows data(50, 700, 5);
  std::vector<int64_t> rows(50);
  std::iota(rows.rbegin(), rows.rend(), 0);
  const BatchView batch = data.sparse_view(rows);
  const auto alone = make(sparse(logistic_options(700, 0.01, 1)));
  alone->initialise();
  const double loss = step(*alone, batch);
  for (const int threads : {2, 3, 5}) {
    const auto team = make(sparse(logistic_options(700, 0.01, threads)));
    team->initialise();
    EXPECT_EQ(step(*team, batch), loss);
    EXPECT_TRUE(at::equal(flat_tensor(team->gradients()), flat_tensor(alone->gradients())));
    const OneThreadOnly limit;
    EXPECT_EQ(step(*team, batch), loss);
    EXPECT_TRUE(at::equal(flat_tensor(team->gradients()), flat_tensor(alone->gradients())));
  }
}

// A step with three million weights, of which the rows name six.
inline void expect_gradients_of_entries_alone(const Make& make) {
  constexpr int64_t kDimension = 3'000'000;
  const std::vector<SparseEntry> entries = {{0, 1}, {7, -2}, {2'999'999, 0.5F}, {7, 1}, {1'500'000, 3}, {2'000'001, 1}};
  const std::vector<int64_t> offsets = {0, 3, 6}, rows = {0, 1}, labels = {1, 0};
  BatchView batch;
  batch.weight = 2;
  batch.tensors.push_back({"labels", {2}, {labels.data(), 2, DType::kInt64}, {}});
  set_sparse_rows(batch, {entries, offsets}, rows);
  const auto framework = make(sparse(logistic_options(kDimension, 0)));
  EXPECT_NEAR(step(*framework, batch), std::log(2.0), 1e-7) << "all weights are 0";
  const at::Tensor gradients = flat_tensor(framework->gradients());
  EXPECT_EQ(gradients.count_nonzero().item<int64_t>(), 5);
  EXPECT_FLOAT_EQ(gradients[0].item<float>(), -0.25F);
  EXPECT_FLOAT_EQ(gradients[7].item<float>(), 0.75F) << "of both rows";
  EXPECT_FLOAT_EQ(gradients[1'500'000].item<float>(), 0.75F);
  EXPECT_FLOAT_EQ(gradients[2'000'001].item<float>(), 0.25F);
  EXPECT_FLOAT_EQ(gradients[2'999'999].item<float>(), -0.125F);
}

inline void expect_sparse_rows_refused_else(const Make& make) {
  FrameworkOptions options = sparse(logistic_options(5, 0));
  options.model = models::Chain({5}).linear("linear", 2).finish();
  options.model.name = "two outputs";
  EXPECT_THAT([&] { make(options); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("model 'two outputs' is another; valid: ")));
  options = sparse(logistic_options(5, 0));
  options.precision = "bf16";
  EXPECT_THAT([&] { make(options); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("sparse rows in float32, not bf16")));
}

}  // namespace mlbench::framework::contract
