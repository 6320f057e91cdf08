#include "mlbench/framework/torch/torch_framework.h"
#include "mlbench/framework/tensors/flat.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/framework/contract_test.h"
#include "mlbench/framework/tensors/dropout.h"
#include "mlbench/framework/tensors/sparse_linear.h"
#include "mlbench/framework/torch/dropout_on_gpu.h"
#include "mlbench/models/chain.h"

namespace mlbench::framework::torch_framework {
namespace {

using contract::logistic_options;
using contract::rows_view;
using contract::step;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

models::ModelDescription small_model(const char* activation = "relu", const char* pool = "max_pool2d",
                                     double dropout = 0.25) {
  models::ModelDescription model = models::Chain({2, 8, 8})
                                       .conv2d_same("conv1", 5, 3)
                                       .activation(activation)
                                       .pool2d(pool, 2)
                                       .conv2d_same("conv2", 7, 3)
                                       .activation(activation)
                                       .pool2d(pool, 2)
                                       .flatten()
                                       .linear("fc1", 33)
                                       .activation(activation)
                                       .dropout(dropout)
                                       .linear("fc2", 3)
                                       .finish();
  model.name = "small";
  return model;
}

FrameworkOptions options_of(models::ModelDescription model) {
  FrameworkOptions options;
  options.model = std::move(model);
  options.threads = 2;
  return options;
}

struct Batch {
  explicit Batch(int64_t samples, uint64_t key = 5) : features(static_cast<size_t>(samples * 128)), labels() {
    RandomSequence random(key);
    for (float& value : features) value = static_cast<float>(random.uniform());
    for (int64_t i = 0; i < samples; ++i) labels.push_back(static_cast<int64_t>(random.below(3)));
  }
  BatchView view() const { return view(0, static_cast<int64_t>(labels.size())); }
  BatchView view(int64_t first, int64_t count) const {
    return samples_view(features.data() + first * 128, labels.data() + first, {2, 8, 8}, count);
  }
  std::vector<float> features;
  std::vector<int64_t> labels;
};

// A second implementation of the model from its description, as simple as possible, in float64.
struct Oracle {
  Oracle(const models::ModelDescription& model, Framework& framework, const Batch& batch, const at::Tensor& mask) {
    std::map<std::string, at::Tensor> p;
    for (const FlatRange& range : framework.layout().ranges) {
      const auto values = flat_tensor(framework.parameters()).narrow(0, range.offset, range.count).view(range.shape);
      p[range.name] = values.to(at::kDouble).requires_grad_(true);
    }
    const auto n = static_cast<int64_t>(batch.labels.size());
    at::Tensor x = at::from_blob(const_cast<float*>(batch.features.data()), {n, 2, 8, 8}).to(at::kDouble);
    for (const auto& layer : model.layers) {
      if (layer.kind == "conv2d") x = at::conv2d(x, p[layer.name + ".weight"], p[layer.name + ".bias"], 1, 1);
      if (layer.kind == "linear") x = at::linear(x, p[layer.name + ".weight"], p[layer.name + ".bias"]);
      if (layer.kind == "relu") x = at::relu(x);
      if (layer.kind == "softplus") x = at::softplus(x);
      if (layer.kind == "max_pool2d") x = at::max_pool2d(x, 2);
      if (layer.kind == "avg_pool2d") x = at::avg_pool2d(x, 2);
      if (layer.kind == "flatten") x = x.flatten(1);
      if (layer.kind == "dropout" && mask.defined()) x = x * mask.to(at::kDouble);
    }
    outputs = x.detach();
    const at::Tensor labels = at::from_blob(const_cast<int64_t*>(batch.labels.data()), {n}, at::kLong);
    const at::Tensor value = at::cross_entropy_loss(x, labels);
    value.backward();
    loss = value.item<double>();
    gradients = at::zeros({framework.layout().parameter_elements}, at::kDouble);
    for (const FlatRange& range : framework.layout().ranges) {
      gradients.narrow(0, range.offset, range.count).copy_(p[range.name].grad().flatten());
    }
  }
  double loss;
  at::Tensor outputs, gradients;
};

double relative_error(const at::Tensor& value, const at::Tensor& oracle) {
  return ((value.to(at::kDouble) - oracle).norm() / oracle.norm()).item<double>();
}

TEST(TorchFramework, LossOutputsAndGradientsEqualFloat64PerTensor) {
  for (const auto& [activation, pool] :
       {std::pair{"relu", "max_pool2d"}, {"softplus", "avg_pool2d"}, {"relu", "avg_pool2d"}}) {
    SCOPED_TRACE(std::string(activation) + " " + pool);
    FrameworkOptions options = options_of(small_model(activation, pool));
    options.dropout = false;
    const auto framework = make(options);
    framework->initialise();
    const Batch batch(9);
    const double loss = step(*framework, batch.view());
    const Oracle oracle(options.model, *framework, batch, {});
    EXPECT_NEAR(loss, oracle.loss, 1e-6);
    const std::vector<float> outputs(framework->outputs().begin(), framework->outputs().end());
    ASSERT_EQ(outputs.size(), 27U);
    EXPECT_LT(relative_error(at::tensor(outputs).view({9, 3}), oracle.outputs), 1e-6);
    for (const FlatRange& range : framework->layout().ranges) {
      const auto part = [&range](const at::Tensor& flat) { return flat.narrow(0, range.offset, range.count); };
      EXPECT_LT(relative_error(part(flat_tensor(framework->gradients())), part(oracle.gradients)), 2e-6) << range.name;
    }
  }
}

// A golden test compares with PyTorch's autocast. This test shows that bf16 is not float32, and that state stays in
// float32.
TEST(TorchFramework, Bf16RoundsProductsAndKeepsTheRestInFloat32) {
  FrameworkOptions options = options_of(small_model("softplus", "avg_pool2d"));
  options.dropout = false;
  options.precision = "bf16";
  const auto framework = make(options);
  EXPECT_EQ(framework->effective()["precision"], "bf16");
  framework->initialise();
  const at::Tensor start = flat_tensor(framework->parameters()).clone();
  const Batch batch(9);
  step(*framework, batch.view());
  EXPECT_TRUE(at::equal(flat_tensor(framework->parameters()), start)) << "the master weights are not rounded";
  EXPECT_EQ(flat_tensor(framework->parameters()).scalar_type(), at::kFloat);
  EXPECT_EQ(flat_tensor(framework->gradients()).scalar_type(), at::kFloat);
  const Oracle oracle(options.model, *framework, batch, {});
  const at::Tensor once = flat_tensor(framework->gradients()).clone();
  const double error = relative_error(once, oracle.gradients);
  EXPECT_LT(error, 0.05);
  EXPECT_GT(error, 1e-4) << "it is not float32";

  // Contributions add up in float32: the same gradient twice is exactly twice it.
  step(*framework, batch.view(), 0, 1, true);
  EXPECT_TRUE(at::equal(flat_tensor(framework->gradients()), once * 2));
  // As in float32, gradients of a rank's shares add up to that of the whole.
  step(*framework, batch.view(0, 6), 0, 6.0 / 9);
  step(*framework, batch.view(6, 3), 0, 3.0 / 9, true);
  EXPECT_LT(relative_error(flat_tensor(framework->gradients()), oracle.gradients), 0.05);
}

TEST(TorchFramework, Bf16Learns) {
  FrameworkOptions options = options_of(small_model());
  options.precision = "bf16";
  const auto framework = make(options);
  framework->initialise();
  const Batch batch(30);  // random labels: to be learnt by heart
  double first = 0, last = 0;
  for (int i = 0; i < 300; ++i) {
    last = step(*framework, batch.view(), i);
    if (i == 0) first = last;
    flat_tensor(framework->parameters()).sub_(flat_tensor(framework->gradients()), 0.1);
  }
  EXPECT_GT(first, 1);
  EXPECT_LT(last, 0.3);
}

TEST(TorchFramework, DropoutUsesTheMaskOfTheStreamAndEvaluationNone) {
  FrameworkOptions options = options_of(small_model());
  options.rank = 3;
  options.seed = 11;
  const auto framework = make(options);
  framework->initialise();
  const Batch batch(9);
  constexpr size_t kLayer = 9;  // the dropout's place in the description
  ASSERT_EQ(options.model.layers[kLayer].kind, "dropout");
  std::vector<float> mask(9 * 33);
  const uint64_t key = models::dropout_key(11, 3, 17, kLayer);
  for (size_t i = 0; i < mask.size(); ++i) mask[i] = philox(key, i / 4, 0)[i % 4] >= 0x40000000U ? 1 / 0.75F : 0;

  const double loss = step(*framework, batch.view(), 17);
  const Oracle oracle(options.model, *framework, batch, at::tensor(mask).view({9, 33}));
  EXPECT_NEAR(loss, oracle.loss, 1e-6);
  EXPECT_LT(relative_error(flat_tensor(framework->gradients()), oracle.gradients), 2e-6);

  framework->forward(batch.view(), Mode::kEvaluate);
  EXPECT_NEAR(framework->loss(), Oracle(options.model, *framework, batch, {}).loss, 1e-6);
}

TEST(DropoutMaskOnGpu, HasTheBitsOfTheHosts) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "missing capability: an NVIDIA GPU, and LibTorch with CUDA";
  constexpr uint64_t kKey = 0xFEDCBA9876543210;
  for (const double p : {0.0, 0.1, 0.5, 0.65}) {
    for (const int64_t elements : {1, 3, 1023, 1'000'003}) {
      const at::Tensor expected = at::empty({elements});
      dropout_mask_reference(kKey, p, {expected.data_ptr<float>(), static_cast<size_t>(elements)});
      const at::Tensor mask = dropout_mask_on_gpu(kKey, p, {elements}, at::Device("cuda:0"));
      EXPECT_TRUE(at::equal(mask.to(at::kCPU), expected)) << elements << " elements, p " << p;
    }
  }
}

TEST(TorchFramework, TellsWhichGradientsAreFinalLastLayerFirst) {
  const auto framework = make(options_of(small_model()));
  framework->initialise();
  std::vector<std::string> order;
  framework->on_gradient_ready([&](int64_t first, int64_t count) {
    for (const FlatRange& range : framework->layout().ranges) {
      if (range.offset != first) continue;
      EXPECT_EQ(range.count, count);
      order.push_back(range.name);
    }
  });
  step(*framework, Batch(4).view());
  EXPECT_THAT(order, ::testing::ElementsAre("fc2.bias", "fc2.weight", "fc1.bias", "fc1.weight", "conv2.bias",
                                            "conv2.weight", "conv1.bias", "conv1.weight"));
}

// --- logistic regression

TEST(LogisticRegression, LossGradientAndProbabilitiesByHand) { contract::expect_logistic_regression_by_hand(make); }

TEST(TorchLosses, MeanSquaredErrorWithPenaltiesByHand) { contract::expect_linear_regression_by_hand(make); }

TEST(TorchLosses, GradientsEqualDifferences) { contract::expect_gradients_equal_differences(make); }

TEST(LogisticRegression, LargeLogitsGiveFiniteLosses) { contract::expect_finite_losses_of_large_logits(make); }

TEST(LogisticRegression, ReadsRowsOfTheCacheWhereTheyLie) {
  const auto framework = make(logistic_options(128, 0.01));
  framework->initialise();
  EXPECT_EQ(framework->effective()["kernels"], Json::array({"gather+linear"}));
  const Batch cache(20);
  const std::vector<int64_t> rows = {7, 0, 19, 7}, labels = {1, 0, 0, 1};
  std::vector<float> copies;
  for (const int64_t row : rows) {
    copies.insert(copies.end(), cache.features.begin() + row * 128, cache.features.begin() + (row + 1) * 128);
  }
  const double loss = step(*framework, rows_view(copies, labels, 128));
  const at::Tensor gradients = flat_tensor(framework->gradients()).clone();
  const BatchView gathered = gathered_view(rows_view(cache.features, labels, 128), cache.features, rows);
  EXPECT_EQ(step(*framework, gathered), loss);
  EXPECT_TRUE(at::equal(flat_tensor(framework->gradients()), gradients));
}

// --- sparse rows

TEST(TorchSparseRows, GiveWhatDenseRowsGiveFromTheSameStart) { contract::expect_sparse_rows_equal_dense_ones(make); }

TEST(TorchSparseRows, AreTheSameBitsForAnyNumberOfThreads) { contract::expect_sparse_rows_by_any_threads(make); }

TEST(TorchSparseRows, TouchTheColumnsOfTheirEntriesAlone) { contract::expect_gradients_of_entries_alone(make); }

TEST(TorchSparseRows, AreRefusedByOtherModelsPrecisionsAndDevices) {
  contract::expect_sparse_rows_refused_else(make);
  FrameworkOptions options = logistic_options(5, 0);
  options.device = "cuda";
  EXPECT_THAT([&] { check_sparse_rows("torch", options); }, ThrowsMessage<UserError>(HasSubstr("not on cuda; valid")));
}

models::ModelDescription model_with_everything() {
  models::ModelDescription model =
      models::Chain({2, 8, 8})
          .conv2d_normal("conv1", 16, 3, 1)
          .batch_norm2d("norm1")
          .activation("relu")
          .residual([](models::Chain& body) { body.conv2d_normal("conv2", 16, 3, 1).batch_norm2d("norm2"); })
          .activation("relu")
          .pool2d("max_pool2d", 2)
          .flatten()
          .dropout(0.25)
          .linear("fc", 3)
          .finish();
  model.name = "everything";
  model.l2 = 0.01;
  return model;
}

// A network with separate memory, as on a GPU, and the same network in the host's memory.
class OnDevice : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("cuda") && !torch::cuda::is_available()) {
      GTEST_SKIP() << "missing capability: an NVIDIA GPU, and LibTorch with CUDA";
    }
    FrameworkOptions options = options_of(model_with_everything());
    host_ = make(options);
    options.device = GetParam();
    device_ = make(options);
    host_->initialise();
    device_->initialise();
  }
  // The GPU's and LibTorch's own kernels add in another order.
  void expect_same(const at::Tensor& value, const at::Tensor& expected, const char* what) {
    EXPECT_LT(relative_error(value.to(at::kCPU), expected.to(at::kDouble)), 2e-6) << what;
  }
  std::unique_ptr<Framework> host_, device_;
};

TEST_P(OnDevice, TrainsAndEvaluatesLikeTheHost) {
  const Batch first(9, 5), second(6, 6);
  ASSERT_EQ(host_->separate_memory(), nullptr);
  const SeparateMemory& memory = *device_->separate_memory();
  EXPECT_EQ(memory.batch_bytes, 0U);
  const uint64_t for_the_start = memory.flat_bytes;
  EXPECT_GT(for_the_start, 0U);
  for (int number = 0; number < 3; ++number) {
    const Batch& batch = number == 1 ? second : first;
    EXPECT_NEAR(step(*device_, batch.view(), number), step(*host_, batch.view(), number), 1e-5);
    expect_same(flat_tensor(device_->gradients()), flat_tensor(host_->gradients()), "gradients");
    expect_same(flat_tensor(device_->buffers()), flat_tensor(host_->buffers()), "running statistics");
    // The next forward pass uses what an optimizer has written.
    for (Framework* one : {host_.get(), device_.get()})
      flat_tensor(one->parameters()).sub_(flat_tensor(one->gradients()), 0.1);
    flat_tensor(device_->parameters()).copy_(flat_tensor(host_->parameters()));
    flat_tensor(device_->buffers()).copy_(flat_tensor(host_->buffers()));
  }
  EXPECT_EQ(memory.batch_bytes, (9 + 6 + 9) * (128 * sizeof(float) + sizeof(int64_t)));
  EXPECT_EQ(memory.flat_bytes, for_the_start) << "parameters, gradients and statistics stay where they are";
  host_->forward(first.view(), Mode::kEvaluate);
  device_->forward(first.view(), Mode::kEvaluate);
  EXPECT_NEAR(device_->loss(), host_->loss(), 1e-5);
  for (size_t i = 0; i < host_->outputs().size(); ++i) EXPECT_NEAR(device_->outputs()[i], host_->outputs()[i], 1e-5);
}

TEST_P(OnDevice, GradientsAddUpAndAreThereWhenTheyAreSaidToBe) {
  std::vector<int64_t> order, host_order;
  host_->on_gradient_ready([&](int64_t begin, int64_t) { host_order.push_back(begin); });
  at::Tensor seen;
  device_->on_gradient_ready([&](int64_t begin, int64_t) {
    order.push_back(begin);
    if (!seen.defined()) seen = flat_tensor(device_->gradients()).clone();
  });
  const Batch batch(9);
  for (const bool accumulate : {false, true}) {
    step(*host_, batch.view(), 0, 0.5, accumulate);
    step(*device_, batch.view(), 0, 0.5, accumulate);
    flat_tensor(host_->buffers()).zero_();
    flat_tensor(device_->buffers()).zero_();
  }
  expect_same(flat_tensor(device_->gradients()), flat_tensor(host_->gradients()), "gradients");
  EXPECT_EQ(order, host_order);
  EXPECT_FALSE(seen.eq(0).all().item<bool>());
  device_->zero_gradients();
  EXPECT_TRUE(flat_tensor(device_->gradients()).eq(0).all().item<bool>());
}

TEST_P(OnDevice, GathersRowsOfTheCache) {
  const Batch batch(9);
  const std::vector<int64_t> rows = {8, 0, 3};
  const std::vector<int64_t> labels = {batch.labels[8], batch.labels[0], batch.labels[3]};
  const BatchView view =
      gathered_view(samples_view(batch.features.data(), labels.data(), {2, 8, 8}, 3), batch.features, rows);
  EXPECT_NEAR(step(*device_, view), step(*host_, view), 1e-5);
  expect_same(flat_tensor(device_->gradients()), flat_tensor(host_->gradients()), "gradients");
}

INSTANTIATE_TEST_SUITE_P(Devices, OnDevice, ::testing::Values("mirror", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

TEST(TorchFramework, LinearLayersWithoutBiasAnywhere) {
  FrameworkOptions options = options_of(
      models::Chain({128}).linear_without_bias("fc1", 9).activation("softplus").linear_without_bias("fc2", 3).finish());
  const auto framework = make(options);
  framework->initialise();
  const Batch batch(9);
  step(*framework, samples_view(batch.features.data(), batch.labels.data(), {128}, 9));
  const at::Tensor x = at::tensor(batch.features).view({9, 128}).to(at::kDouble);
  const auto parameter = [&](size_t i) {
    const FlatRange& range = framework->layout().ranges[i];
    const at::Tensor values =
        flat_tensor(framework->parameters()).narrow(0, range.offset, range.count).view(range.shape);
    return values.to(at::kDouble).requires_grad_(true);
  };
  const at::Tensor first = parameter(0), second = parameter(1);
  at::cross_entropy_loss(at::softplus(x.mm(first.t())).mm(second.t()), at::tensor(batch.labels)).backward();
  const auto gradient = [&](size_t i) {
    const FlatRange& range = framework->layout().ranges[i];
    return flat_tensor(framework->gradients()).narrow(0, range.offset, range.count).view(range.shape);
  };
  EXPECT_LT(relative_error(gradient(0), first.grad()), 2e-6);
  EXPECT_LT(relative_error(gradient(1), second.grad()), 2e-6);
}

TEST(TorchFramework, SaysWhatItUsesAndRefusesWhatItLacks) {
  const Json effective = make(options_of(small_model()))->effective();
  EXPECT_EQ(effective["name"], "torch");
  EXPECT_EQ(effective["device"], "cpu");
  EXPECT_EQ(effective["pinned"], false);
  EXPECT_EQ(effective["page_locked"], false);
  EXPECT_EQ(effective["precision"], "float32");
  EXPECT_EQ(effective["layout"], "nhwc");
  EXPECT_EQ(effective["fused"], false);
  EXPECT_EQ(effective["kernels"], Json::array({"relu+max_pool2d"}));
  EXPECT_THAT(make(options_of(small_model()))->versions()["libtorch"].get<std::string>(), HasSubstr("."));

  FrameworkOptions options = options_of(small_model());
  options.precision = "tf32";
  EXPECT_THAT([&] { make(options); }, ThrowsMessage<UserError>(AllOf(HasSubstr("'tf32'"), HasSubstr("NVIDIA GPUs"),
                                                                     HasSubstr("valid: float32, bf16"))));
  options.precision = "int4";
  EXPECT_THAT([&] { make(options); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("'int4'"), HasSubstr("valid: float32, tf32, bf16"))));
  options = options_of(small_model());
  options.device = "tpu";
  EXPECT_THAT([&] { make(options); }, ThrowsMessage<UserError>(AllOf(HasSubstr("'tpu'"), HasSubstr("cpu, cuda"))));
  options.device = "cuda";
  options.local_rank = 1000;  // more than any host has
  EXPECT_THAT([&] { make(options); },
              ThrowsMessage<UserError>(AnyOf(HasSubstr("leave out --gpu"), HasSubstr("a GPU of its own"))));
}

}  // namespace
}  // namespace mlbench::framework::torch_framework
