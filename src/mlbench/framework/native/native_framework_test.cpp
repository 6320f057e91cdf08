// The rule of comparison (per tensor): the norm of the error against LibTorch in float64 is at most twice that of
// framework/torch in the same precision, or below a stated multiple of eps x norm. Where convolutions take Winograd's
// order, it is at most 16 times that of framework/torch.

#include "mlbench/framework/native/native_framework.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/framework/contract_test.h"
#include "mlbench/framework/tensors/flat.h"
#include "mlbench/framework/torch/torch_framework.h"
#include "mlbench/models/chain.h"
#include "mlbench/models/graph.h"
#include "mlbench/models/smooth_test.h"

namespace mlbench::framework::native_framework {
namespace {

using contract::logistic_options;
using contract::norm_of;
using contract::rows_view;
using contract::Samples;
using contract::small_model;
using contract::step;
using models::Chain;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using ::testing::UnorderedElementsAre;

constexpr double kEps = std::numeric_limits<float>::epsilon();

FrameworkOptions options_of(models::ModelDescription model, int threads = 2) {
  FrameworkOptions options;
  options.model = std::move(model);
  options.threads = threads;
  return options;
}

// Each test runs with convolutions in either order.
class NativeFramework : public testing::TestWithParam<const char*> {
 protected:
  static FrameworkOptions options_of(models::ModelDescription model, int threads = 2) {
    FrameworkOptions options = native_framework::options_of(std::move(model), threads);
    options.convolution = GetParam();
    return options;
  }
};
INSTANTIATE_TEST_SUITE_P(Orders, NativeFramework, testing::Values("auto", "direct"),
                         [](const auto& info) { return std::string(info.param); });

models::ModelDescription text_model() {
  models::Graph graph;
  const std::string x = graph.add("embedding", "embedding", {graph.input("tokens", {models::kAny, models::kAny})},
                                  {.options = {{"vocabulary", 9}, {"features", 4}, {"scale", 1}, {"row_dropout", 0}},
                                   .initialisers = {{"weight", {}}}});
  graph.add("linear", "softmax", {x},
            {.options = {{"in", 4}, {"out", 9}, {"bias", false}}, .shared = {{"weight", "embedding.weight"}}});
  models::ModelDescription model = graph.finish();
  model.name = "text";
  model.loss.kind = "token_cross_entropy";
  return model;
}

// A second implementation of the model from its description, as simple as possible, in float64.
class Oracle {
 public:
  Oracle(const FrameworkOptions& options, Framework& framework, const Samples& batch, int64_t step = 0)
      : options_(options), step_(step) {
    for (const FlatRange& range : framework.layout().ranges) {
      const at::Tensor flat = range.trainable ? flat_tensor(framework.parameters()) : flat_tensor(framework.buffers());
      const at::Tensor values = flat.narrow(0, range.offset, range.count).view(range.shape).to(at::kDouble);
      p_[range.name] = range.trainable ? values.clone().requires_grad_(true) : values.clone();
    }
    std::vector<int64_t> shape = batch.shape;
    const auto n = static_cast<int64_t>(batch.labels.size());
    shape.insert(shape.begin(), n);
    const at::Tensor x = at::from_blob(const_cast<float*>(batch.features.data()), shape).to(at::kDouble);
    const at::Tensor y = chain(options.model.layers, x);
    outputs = y.detach();
    const at::Tensor labels = at::from_blob(const_cast<int64_t*>(batch.labels.data()), {n}, at::kLong);
    const at::Tensor value = at::cross_entropy_loss(y, labels);
    value.backward();
    loss = value.item<double>();
  }
  at::Tensor gradient(const std::string& name) const { return p_.at(name).grad(); }
  at::Tensor buffer(const std::string& name) const { return p_.at(name); }
  double loss = 0;
  at::Tensor outputs;

 private:
  at::Tensor chain(const std::vector<models::LayerSpec>& layers, at::Tensor x) {
    for (size_t i = 0; i < layers.size(); ++i) x = layer(layers[i], i, x);
    return x;
  }
  at::Tensor layer(const models::LayerSpec& layer, size_t index, const at::Tensor& x) {
    const auto p = [&](const char* suffix) { return p_.at(layer.name + suffix); };
    const Json& o = layer.options;
    if (layer.kind == "conv2d") {
      const at::Tensor bias = o.at("bias").get<bool>() ? p(".bias") : at::Tensor();
      return at::conv2d(x, p(".weight"), bias, o.at("stride").get<int64_t>(), o.at("padding").get<int64_t>());
    }
    if (layer.kind == "linear") return at::linear(x, p(".weight"), o.value("bias", true) ? p(".bias") : at::Tensor());
    if (layer.kind == "relu") return at::relu(x);
    if (layer.kind == "softplus") return at::softplus(x);
    const auto size = [&](const char* option) { return o.at(option).get<int64_t>(); };
    if (layer.kind == "max_pool2d") return at::max_pool2d(x, size("kernel"), size("stride"), size("padding"));
    if (layer.kind == "avg_pool2d") return at::avg_pool2d(x, size("kernel"), size("stride"), size("padding"));
    if (layer.kind == "adaptive_avg_pool2d") return at::adaptive_avg_pool2d(x, {size("size"), size("size")});
    if (layer.kind == "global_avg_pool2d") return x.mean({2, 3});
    if (layer.kind == "global_avg_max_pool2d") return at::cat({x.mean({2, 3}), x.amax({2, 3})}, 1);
    if (layer.kind == "flatten") return x.flatten(1);
    if (layer.kind == "residual") return chain(layer.body, x) + chain(layer.shortcut, x);
    if (layer.kind == "batch_norm2d") {
      return std::get<0>(at::native_batch_norm(x, p(".weight"), p(".bias"), p(".running_mean"), p(".running_var"),
                                               !options_.frozen_batch_norm, o.at("momentum"), o.at("eps")));
    }
    if (layer.kind == "dropout") {
      if (!options_.dropout) return x;
      const double p_zero = o.at("p");
      const uint64_t key = models::dropout_key(options_.seed, options_.rank, step_, index);
      std::vector<double> mask;
      for (int64_t i = 0; i < x.numel(); ++i) {
        const auto number = static_cast<uint64_t>(i);
        mask.push_back(philox(key, number / 4, 0)[number % 4] >= p_zero * 0x1.0p32 ? 1 / (1 - p_zero) : 0.0);
      }
      return x * at::tensor(mask, at::kDouble).view(x.sizes());
    }
    throw InternalError("the oracle has no layer " + layer.kind);
  }

  const FrameworkOptions& options_;
  int64_t step_;
  std::map<std::string, at::Tensor> p_;
};

// Compares loss, outputs, gradients and running statistics after one step with the oracle and with framework torch.
void expect_as_exact_as_torch(const FrameworkOptions& options, const Samples& batch, double multiple) {
  const auto ours = make(options);
  const auto peer = torch_framework::make(options);
  ours->initialise();
  peer->initialise();
  // Parameters get random parts, so that biases and scales matter.
  RandomSequence random(3);
  for (int64_t i = 0; i < flat_tensor(ours->parameters()).numel(); ++i) {
    flat_tensor(ours->parameters()).data_ptr<float>()[i] += 0.05F * static_cast<float>(random.normal());
  }
  flat_tensor(peer->parameters()).copy_(flat_tensor(ours->parameters()));
  const Oracle oracle(options, *ours, batch, 4);
  const double loss = step(*ours, batch.view(), 4), peer_loss = step(*peer, batch.view(), 4);
  const double factor = ours->effective().value("convolution", "direct") == "winograd" ? 16 : 2;
  // With oneDNN's kernels for AMD's AVX-512, the gradient of a direct convolution has 2.2 times LibTorch's error.
  const double factor_of_convolutions = std::max(factor, 3.0);
  // The error of one number may be small by chance.
  const double band = options.precision == "bf16" ? 0.01 : factor / 2 * std::max(multiple, 8.0) * kEps;
  EXPECT_LE(std::abs(loss - oracle.loss), std::max(factor * std::abs(peer_loss - oracle.loss), band * oracle.loss));
  const auto outputs_of = [&](Framework& framework) {
    const std::vector<float> values(framework.outputs().begin(), framework.outputs().end());
    return at::tensor(values).view(oracle.outputs.sizes()).to(at::kDouble);
  };
  double largest = 0;
  for (const FlatRange& range : ours->layout().ranges) {
    if (range.trainable) largest = std::max(largest, norm_of(oracle.gradient(range.name)));
  }
  const auto compare = [&](const std::string& what, double most, const at::Tensor& mine, const at::Tensor& theirs,
                           const at::Tensor& exact) {
    const double error = norm_of(mine.to(at::kDouble) - exact), peer_error = norm_of(theirs.to(at::kDouble) - exact);
    // The gradient of a bias before a batch norm is zero except for rounding.
    const double unit = options.precision == "bf16" ? 0x1p-8 : kEps;
    const double scale = norm_of(exact) < 1e-10 * largest ? unit * largest : multiple * kEps * norm_of(exact);
    EXPECT_LE(error, std::max(most * peer_error, scale))
        << what << ": LibTorch's error is " << peer_error << ", norm " << norm_of(exact);
  };
  compare("outputs", factor, outputs_of(*ours), outputs_of(*peer), oracle.outputs);
  // Tensors under 64 elements are pooled by layer type.
  struct Group {
    std::vector<at::Tensor> mine, theirs, exact;
    double factor = 0;
  };
  std::map<std::string, Group> groups;
  for (const FlatRange& range : ours->layout().ranges) {
    const bool norm = range.name.find("bn") != std::string::npos;
    const std::string type = !range.trainable ? "statistics" : norm ? "bn" : range.shape.size() == 4 ? "conv" : "other";
    Group& group = groups[range.count < 64 ? "small tensors of " + type : range.name];
    const auto part = [&](Framework& framework) {
      const at::Tensor flat = range.trainable ? flat_tensor(framework.gradients()) : flat_tensor(framework.buffers());
      return flat.narrow(0, range.offset, range.count).to(at::kDouble);
    };
    group.factor = type == "conv" ? factor_of_convolutions : factor;
    group.mine.push_back(part(*ours));
    group.theirs.push_back(part(*peer));
    group.exact.push_back((range.trainable ? oracle.gradient(range.name) : oracle.buffer(range.name)).flatten());
  }
  for (const auto& [name, group] : groups) {
    compare(name, group.factor, at::cat(group.mine), at::cat(group.theirs), at::cat(group.exact));
  }
}

struct LayerCase {
  const char* name;
  models::ModelDescription model;
};

// Each layer type, alone where that is a model, and the neighbours that become one operation, with channels that fill
// blocks of 8 and 16, and channels that do not.
std::vector<LayerCase> layer_cases() {
  const auto head = [](Chain chain) { return chain.global_avg_pool2d().linear("fc", 5).finish(); };
  const auto block = [](Chain& body, const char* name, int64_t channels, int64_t stride) {
    const std::string n = name;
    body.conv2d_normal(n + ".conv1", channels, 3, stride).batch_norm2d(n + ".bn1").activation("relu");
    body.conv2d_normal(n + ".conv2", channels, 3, 1).batch_norm2d(n + ".bn2");
  };
  const auto projection = [](Chain& part) { part.conv2d_normal("short", 32, 1, 2).batch_norm2d("short.bn"); };
  const auto bare_projection = [](Chain& part) { part.conv2d_uniform("short", 32, 1, 2); };
  return {
      {"linear", Chain({20}).linear("fc", 5).finish()},
      {"linear without bias", Chain({20}).linear_without_bias("fc1", 33).linear_without_bias("fc2", 5).finish()},
      {"activations on rows",
       Chain({20}).linear("a", 40).activation("relu").linear("b", 24).activation("softplus").linear("c", 5).finish()},
      {"dropout", Chain({20}).linear("a", 37).dropout(0.4).linear("b", 5).finish()},
      {"convolution of an image", head(Chain({3, 8, 8}).conv2d_same("conv", 16, 3))},
      {"convolution of one channel", head(Chain({1, 8, 8}).conv2d_same("conv", 32, 5))},
      {"odd channels", head(Chain({2, 8, 8}).conv2d_same("a", 5, 3).conv2d_same("b", 19, 3))},
      {"strides and 1x1", head(Chain({3, 8, 8}).conv2d_normal("a", 16, 3, 2).conv2d_normal("b", 32, 1, 2))},
      {"activations on images",
       head(
           Chain({3, 8, 8}).conv2d_same("a", 16, 3).activation("relu").conv2d_same("b", 11, 3).activation("softplus"))},
      {"max_pool2d", head(Chain({3, 12, 12}).conv2d_same("a", 16, 3).pool2d("max_pool2d", 3))},
      {"relu+max_pool2d", head(Chain({3, 8, 8}).conv2d_same("a", 16, 3).activation("relu").pool2d("max_pool2d", 2))},
      {"max_pool2d of padded squares that overlap",
       head(Chain({3, 8, 12}).conv2d_same("a", 16, 3).pool2d("max_pool2d", {3, 2, 1}))},
      {"relu+max_pool2d of squares that overlap",
       head(Chain({3, 8, 8}).conv2d_same("a", 19, 3).activation("relu").pool2d("max_pool2d", {3, 1, 1}))},
      {"avg_pool2d", head(Chain({3, 8, 8}).conv2d_same("a", 11, 3).pool2d("avg_pool2d", 2))},
      {"avg_pool2d of padded squares that overlap",
       head(Chain({3, 8, 12}).conv2d_same("a", 11, 3).pool2d("avg_pool2d", {3, 2, 1}))},
      {"adaptive_avg_pool2d of fewer, as many and more pixels", head(Chain({3, 8, 8})
                                                                         .conv2d_same("a", 11, 3)
                                                                         .adaptive_avg_pool2d(5)
                                                                         .adaptive_avg_pool2d(5)
                                                                         .conv2d_same("b", 16, 3)
                                                                         .adaptive_avg_pool2d(7))},
      {"global_avg_max_pool2d",
       Chain({3, 8, 8}).conv2d_same("a", 11, 3).global_avg_max_pool2d().linear("fc", 5).finish()},
      {"flatten", Chain({3, 4, 4}).conv2d_same("a", 11, 3).flatten().linear("fc", 5).finish()},
      {"batch_norm2d", head(Chain({3, 8, 8}).conv2d_normal("a", 16, 3, 1).batch_norm2d("bn").conv2d_same("b", 16, 3))},
      {"batch_norm2d of odd channels", head(Chain({3, 8, 8}).conv2d_normal("a", 11, 3, 1).batch_norm2d("bn"))},
      {"batch_norm2d+relu", head(Chain({3, 8, 8})
                                     .conv2d_normal("a", 32, 3, 1)
                                     .batch_norm2d("bn")
                                     .activation("relu")
                                     .conv2d_same("b", 16, 3))},
      {"residual", head(Chain({3, 8, 8})
                            .conv2d_same("a", 16, 3)
                            .residual([&](Chain& b) { block(b, "b", 16, 1); })
                            .residual([&](Chain& b) { block(b, "c", 16, 1); }))},
      {"residual+relu", head(Chain({3, 8, 8})
                                 .conv2d_same("a", 16, 3)
                                 .residual([&](Chain& b) { block(b, "b", 16, 1); })
                                 .activation("relu")
                                 .residual([&](Chain& b) { block(b, "c", 16, 1); })
                                 .activation("relu"))},
      {"residual with projection", head(Chain({3, 8, 8})
                                            .conv2d_same("a", 16, 3)
                                            .residual([&](Chain& b) { block(b, "b", 32, 2); }, projection)
                                            .activation("relu"))},
      {"residual with projection, without norms at the ends",
       head(Chain({3, 8, 8})
                .conv2d_same("a", 16, 3)
                .residual([&](Chain& b) { b.conv2d_uniform("b.conv", 32, 3, 2); }, bare_projection)
                .residual([&](Chain& b) { block(b, "c", 32, 1); }))},
      {"residual without norm at the end",
       head(
           Chain({3, 8, 8})
               .conv2d_same("a", 16, 3)
               .residual([&](Chain& b) { b.batch_norm2d("b.bn").activation("relu").conv2d_normal("b.conv", 16, 3, 1); })
               .residual([&](Chain& b) {
                 b.batch_norm2d("c.bn").activation("softplus").conv2d_normal("c.conv", 16, 3, 1);
               }))},
      {"residual of residuals", head(Chain({3, 8, 8}).conv2d_same("a", 16, 3).residual([&](Chain& outer) {
         outer.residual([&](Chain& b) { b.conv2d_same("inner", 16, 3).activation("softplus"); })
             .conv2d_same("next", 16, 3);
       }))},
  };
}

TEST_P(NativeFramework, EachLayerIsAsExactAsLibTorch) {
  for (const LayerCase& test : layer_cases()) {
    for (const int threads : {1, 2}) {
      SCOPED_TRACE(std::string(test.name) + ", " + std::to_string(threads) + " threads");
      FrameworkOptions options = options_of(test.model, threads);
      options.model.name = test.name;
      options.rank = 2;
      expect_as_exact_as_torch(options, Samples(options.model, 13), 8);
    }
  }
}

TEST_P(NativeFramework, FrozenStatisticsNormaliseAndStay) {
  for (const LayerCase& test : layer_cases()) {
    SCOPED_TRACE(test.name);
    FrameworkOptions options = options_of(test.model);
    options.frozen_batch_norm = true;
    options.dropout = false;
    expect_as_exact_as_torch(options, Samples(options.model, 13), 8);
  }
}

models::ModelDescription task_model(const std::string& task, const std::string& model, const Json& model_options) {
  spec::TaskSpec spec = spec::find_task(task, task == "1a" ? "2021" : "", "", {}).task;
  spec.model = {model, model_options};
  return models::describe_model(spec);
}

// Smooth models have a narrow bound. With ReLU and max pooling, a value next to a kink may fall on its other side,
// which moves the gradient but is no error, so the bound of real models is wide.
TEST_P(NativeFramework, WholeModelsAreAsExactAsLibTorch) {
  for (const char* version : {"v1", "v2", "v2-mlbench"}) {
    SCOPED_TRACE(version);
    // Rounding errors grow from one batch norm to the next, in LibTorch, too.
    const Json deep = {{"version", version}, {"depth", 14}};
    const FrameworkOptions smooth = options_of(models::smooth(task_model("1a", "resnet-cifar", deep)));
    expect_as_exact_as_torch(smooth, Samples(smooth.model, 10), 128);
    const Json shallow = {{"version", version}, {"depth", 8}};
    const FrameworkOptions real = options_of(task_model("1a", "resnet-cifar", shallow));
    expect_as_exact_as_torch(real, Samples(real.model, 10), 40000);
  }
  const Json projected = {{"version", "v2-tensorflow"}, {"depth", 14}};
  const FrameworkOptions smooth_projected = options_of(models::smooth(task_model("1a", "resnet-cifar", projected)));
  expect_as_exact_as_torch(smooth_projected, Samples(smooth_projected.model, 10), 128);
  const FrameworkOptions smooth = options_of(models::smooth(task_model("fashion-mnist", "mnist-cnn", Json::object())));
  expect_as_exact_as_torch(smooth, Samples(smooth.model, 21), 8);
  const FrameworkOptions real = options_of(task_model("fashion-mnist", "mnist-cnn", Json::object()));
  expect_as_exact_as_torch(real, Samples(real.model, 21), 1000);
}

// Losses of 20 steps of plain gradient descent stay within one in a thousand of LibTorch's.
TEST_P(NativeFramework, TwentyStepsStayBesideLibTorch) {
  const FrameworkOptions options = options_of(models::smooth(task_model("1a", "resnet-cifar", {{"depth", 8}})));
  const auto ours = make(options);
  const auto peer = torch_framework::make(options);
  ours->initialise();
  peer->initialise();
  const Samples batch(options.model, 16);
  for (int i = 0; i < 20; ++i) {
    const double loss = step(*ours, batch.view(), i), expected = step(*peer, batch.view(), i);
    EXPECT_NEAR(loss, expected, 1e-3 * expected) << "step " << i;
    for (Framework* framework : {ours.get(), peer.get()})
      flat_tensor(framework->parameters()).sub_(flat_tensor(framework->gradients()), 0.02);
  }
}

at::Tensor logical_gradients(Framework& framework) {
  std::vector<at::Tensor> parts;
  for (const FlatRange& range : framework.layout().ranges) {
    if (range.trainable) parts.push_back(flat_tensor(framework.gradients()).narrow(0, range.offset, range.count));
  }
  return at::cat(parts);
}

double relative_error(const at::Tensor& value, const at::Tensor& exact) {
  return norm_of(value.to(at::kDouble) - exact.to(at::kDouble)) / norm_of(exact);
}

TEST_P(NativeFramework, AnySizeOfBatchAfterAnyOther) {
  FrameworkOptions options = options_of(small_model(), 3);
  options.dropout = false;
  const auto framework = make(options);
  framework->initialise();
  for (const int64_t samples : {7, 1, 64, 2, 131, 7}) {  // fewer than threads, and more than ever before
    SCOPED_TRACE(samples);
    const Samples batch(options.model, samples);
    const at::Tensor buffers = flat_tensor(framework->buffers()).clone();
    const Oracle oracle(options, *framework, batch);
    EXPECT_NEAR(step(*framework, batch.view()), oracle.loss, 1e-5);
    for (const FlatRange& range : framework->layout().ranges) {
      if (!range.trainable || samples == 1) continue;
      const at::Tensor gradient = flat_tensor(framework->gradients()).narrow(0, range.offset, range.count);
      // A bias before a batch norm has no gradient but rounding errors.
      if (range.name == "conv1.bias") continue;
      EXPECT_LT(relative_error(gradient, oracle.gradient(range.name).flatten()), 1e-4) << range.name;
    }
    flat_tensor(framework->buffers()).copy_(buffers);
  }
}

TEST_P(NativeFramework, EvaluationUsesRunningStatisticsAndLeavesThemAlone) {
  FrameworkOptions options = options_of(small_model());
  const auto framework = make(options);
  const auto peer = torch_framework::make(options);
  framework->initialise();
  const Samples batch(options.model, 20);
  step(*framework, batch.view());
  const at::Tensor buffers = flat_tensor(framework->buffers()).clone();
  flat_tensor(peer->parameters()).copy_(flat_tensor(framework->parameters()));
  flat_tensor(peer->buffers()).copy_(buffers);
  framework->forward(batch.view(), Mode::kEvaluate);
  peer->forward(batch.view(), Mode::kEvaluate);
  EXPECT_NEAR(framework->loss(), peer->loss(), 1e-5);
  EXPECT_TRUE(at::equal(flat_tensor(framework->buffers()), buffers));
  for (size_t i = 0; i < framework->outputs().size(); ++i) {
    EXPECT_NEAR(framework->outputs()[i], peer->outputs()[i], 1e-4);
  }
}

TEST_P(NativeFramework, TellsWhichGradientsAreFinalLastLayerFirst) {
  const auto framework = make(options_of(small_model()));
  framework->initialise();
  std::vector<std::string> order;
  flat_tensor(framework->gradients()).fill_(1e9F);
  framework->on_gradient_ready([&](int64_t first, int64_t count) {
    for (const FlatRange& range : framework->layout().ranges) {
      if (!range.trainable || range.offset != first) continue;
      EXPECT_EQ(range.count, count);
      EXPECT_LT(flat_tensor(framework->gradients()).narrow(0, first, count).abs().max().item<float>(), 1e9F)
          << range.name;
      order.push_back(range.name);
    }
  });
  step(*framework, Samples(small_model(), 4).view());
  EXPECT_THAT(order, ElementsAre("fc2.bias", "fc2.weight", "fc1.bias", "fc1.weight", "conv2.bias", "conv2.weight",
                                 "bn1.bias", "bn1.weight", "conv1.bias", "conv1.weight"));
}

TEST_P(NativeFramework, AnErrorOfTheCallbackIsThrownAndLeavesNothing) {
  const auto framework = make(options_of(small_model()));
  framework->initialise();
  const Samples batch(small_model(), 6);
  step(*framework, batch.view());
  const at::Tensor gradients = flat_tensor(framework->gradients()).clone();
  for (int failing = 1; failing <= 10; ++failing) {  // the model has as many parameters
    int calls = 0;
    framework->on_gradient_ready([&](int64_t, int64_t) {
      if (++calls == failing) throw IoError("from the callback");
    });
    EXPECT_THAT([&] { step(*framework, batch.view()); }, ThrowsMessage<IoError>(HasSubstr("from the callback")));
    EXPECT_EQ(calls, failing) << "none after the error";
  }
  framework->on_gradient_ready({});
  step(*framework, batch.view());
  EXPECT_TRUE(at::equal(flat_tensor(framework->gradients()), gradients));
}

TEST_P(NativeFramework, ATeamSmallerThanAskedForIsRefused) {
  const auto framework = make(options_of(small_model()));
  framework->initialise();
  const Samples batch(small_model(), 6);
  step(*framework, batch.view());
  const at::Tensor gradients = flat_tensor(framework->gradients()).clone();
  const auto refused = ThrowsMessage<UserError>(AllOf(HasSubstr("for 2 threads and got 1"), HasSubstr("OMP_")));
  {
    const contract::OneThreadOnly limit;
    EXPECT_THAT([&] { framework->forward(batch.view(), Mode::kTrain); }, refused);
  }
  framework->forward(batch.view(), Mode::kTrain);
  {
    const contract::OneThreadOnly limit;
    EXPECT_THAT([&] { framework->backward({}); }, refused);
  }
  step(*framework, batch.view());
  EXPECT_TRUE(at::equal(flat_tensor(framework->gradients()), gradients)) << "and nothing is left of it";
}

TEST_P(NativeFramework, SaysWhatItUsesAndRefusesWhatItLacks) {
  const Json effective = make(options_of(small_model()))->effective();
  EXPECT_EQ(effective["name"], "native");
  EXPECT_EQ(effective["precision"], "float32");
  EXPECT_THAT(effective["layout"].get<std::string>(), ::testing::MatchesRegex("nChw(8|16)c"));
  EXPECT_EQ(effective["fused"], true);
  EXPECT_EQ(effective["kernels"], Json::array({"batch_norm2d+relu", "relu+max_pool2d"}));
  EXPECT_EQ(make(options_of(small_model()))->versions()["onednn"], "2.6.3");

  FrameworkOptions options = options_of(small_model());
  options.precision = "tf32";
  EXPECT_THAT([&] { make(options); }, ThrowsMessage<UserError>(AllOf(HasSubstr("'tf32'"), HasSubstr("NVIDIA GPUs"),
                                                                     HasSubstr("valid: float32, bf16"))));
  options = options_of(text_model());
  EXPECT_EQ(make(options)->effective()["layout"], "rows without padding");
  options = options_of(Chain({3, 8, 8}).pool2d("max_pool2d", 2).flatten().linear("a", 5).finish());
  EXPECT_NO_THROW(make(options)) << "pools take blocked inputs";
}

TEST(NativeConvolutions, TakeTheOrderThatWasAskedForAndSayWhy) {
  FrameworkOptions options = options_of(Chain({3, 9, 11})
                                            .conv2d_same("first", 16, 3)
                                            .conv2d_same("second", 272, 3)
                                            .conv2d_same("third", 32, 1)
                                            .conv2d_same("fourth", 32, 3)
                                            .flatten()
                                            .linear("fc", 5)
                                            .finish());
  const Samples batch(options.model, 9);
  const auto outputs_by = [&](const char* asked, int threads) {
    options.convolution = asked;
    options.threads = threads;
    const auto framework = make(options);
    EXPECT_EQ(framework->effective()["convolution"], asked == std::string("direct") ? "direct" : "winograd");
    framework->initialise();
    step(*framework, batch.view());
    const std::span<const float> outputs = framework->outputs();
    return std::pair(std::vector<float>(outputs.begin(), outputs.end()), logical_gradients(*framework));
  };
  const auto why = [&](const char* asked) {
    options.convolution = asked;
    Json reasons = make(options)->effective()["convolution_why"];
    for (Json& reason : reasons) {
      reason = std::regex_replace(reason.get<std::string>(), std::regex("of (8|16)$"), "of a block");
    }
    return reasons.get<std::vector<std::string>>();
  };
  const char *image = "direct in 1 layer: channels are no multiples of a block",
             *small = "direct in 1 layer: not 3x3 with stride 1 and padding 1";
  EXPECT_THAT(why("auto"),
              UnorderedElementsAre(image, small, "direct in 1 layer: faster", "winograd in 1 layer: faster"));
  EXPECT_THAT(why("winograd"), UnorderedElementsAre(image, small, "winograd in 2 layers: as asked"));
  EXPECT_THAT(why("direct"), ElementsAre("direct in 4 layers: as asked"));

  const auto [direct, direct_gradients] = outputs_by("direct", 2);
  for (const char* asked : {"auto", "winograd"}) {
    SCOPED_TRACE(asked);
    const auto [ours, gradients] = outputs_by(asked, 2);
    EXPECT_NE(ours, direct);
    EXPECT_LT(relative_error(gradients, direct_gradients), 1e-5);
    EXPECT_EQ(outputs_by(asked, 2).first, ours);
    EXPECT_TRUE(at::equal(outputs_by(asked, 2).second, gradients));
    EXPECT_EQ(outputs_by(asked, 1).first, ours) << "the forward pass has the same bits with any number of threads";
  }
  EXPECT_NE(outputs_by("auto", 2).first, outputs_by("winograd", 2).first) << "the second layer is forced";
}

// --- bfloat16

bool has_bfloat16() {
  FrameworkOptions options = options_of(small_model());
  options.precision = "bf16";
  try {
    make(options);
    return true;
  } catch (const UserError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("AVX512-BF16"), HasSubstr("valid: float32")));
    return false;
  }
}

TEST(NativeBfloat16, IsAsExactAsLibTorchsAutocastOrRefused) {
  if (!has_bfloat16()) GTEST_SKIP() << "missing capability: AVX512-BF16, of the CPU or within ONEDNN_MAX_CPU_ISA";
  std::vector<FrameworkOptions> cases = {
      options_of(models::smooth(task_model("1a", "resnet-cifar", {{"depth", 8}}))),
      options_of(models::smooth(task_model("1a", "resnet-cifar", {{"depth", 8}, {"version", "v2"}}))),
      options_of(models::smooth(task_model("fashion-mnist", "mnist-cnn", Json::object())))};
  for (FrameworkOptions& options : cases) {
    SCOPED_TRACE(options.model.name);
    options.precision = "bf16";
    expect_as_exact_as_torch(options, Samples(options.model, 16), 0);
    const Json effective = make(options)->effective();
    EXPECT_EQ(effective["precision"], "bf16");
    EXPECT_EQ(effective["convolution"], "direct");
  }
}

// The networks for images of 224 x 224 pixels, on smaller ones.
models::ModelDescription imagenet_model(const std::string& model, const Json& options, int64_t size) {
  spec::TaskSpec spec = spec::find_task("1a", "2021", "", {}).task;
  spec.data.sample_shape = {3, size, size};
  spec.model = {model, options};
  return models::smooth(models::describe_model(spec));
}

TEST_P(NativeFramework, ResNet50IsAsExactAsLibTorch) {
  for (const char* version : {"v1.5", "v1"}) {
    SCOPED_TRACE(version);
    const FrameworkOptions options = options_of(imagenet_model("resnet50", {{"version", version}}, 64));
    expect_as_exact_as_torch(options, Samples(options.model, 5), 512);
  }
}

TEST_P(NativeFramework, Vgg16IsAsExactAsLibTorch) {
  const FrameworkOptions options = options_of(imagenet_model("vgg16", {{"hidden", 96}}, 32));
  expect_as_exact_as_torch(options, Samples(options.model, 5), 64);
}

TEST(NativeBfloat16, KeepsMasterWeightsInFloat32AndLearns) {
  if (!has_bfloat16()) GTEST_SKIP() << "missing capability: AVX512-BF16, of the CPU or within ONEDNN_MAX_CPU_ISA";
  FrameworkOptions options = options_of(small_model());
  options.precision = "bf16";
  const auto framework = make(options);
  framework->initialise();
  const at::Tensor start = flat_tensor(framework->parameters()).clone();
  const Samples batch(options.model, 30);
  const double first = step(*framework, batch.view());
  EXPECT_TRUE(at::equal(flat_tensor(framework->parameters()), start)) << "the master weights are not rounded";
  double last = 0;
  for (int i = 0; i < 200; ++i) {
    flat_tensor(framework->parameters()).sub_(flat_tensor(framework->gradients()), 0.05);
    last = step(*framework, batch.view(), i);
  }
  EXPECT_LT(last, 0.3 * first);
}

// --- decoding

TEST(NativeDecoding, HasADecoderForEachThread) {
  spec::TaskSpec task;
  task.model = {"transformer", {{"size", "tiny"}}};
  task.data.classes = 20;
  task.loss = "token_cross_entropy";
  const auto framework = make(options_of(models::describe_model(task)));
  framework->initialise();
  const auto threads_of = [&](int64_t most) {
    std::mutex mutex;
    std::set<std::thread::id> threads;
    framework->decode(most, [&](Decoder&) {
      const std::lock_guard lock(mutex);
      threads.insert(std::this_thread::get_id());
    });
    return threads.size();
  };
  EXPECT_EQ(threads_of(1), 1U);
  EXPECT_EQ(threads_of(2), 2U);
  EXPECT_EQ(threads_of(5), 2U);
}

// --- logistic regression

TEST(NativeLogisticRegression, LossGradientAndProbabilitiesByHand) {
  contract::expect_logistic_regression_by_hand(make);
}

TEST(NativeLosses, MeanSquaredErrorWithPenaltiesByHand) { contract::expect_linear_regression_by_hand(make); }

TEST(NativeLosses, GradientsEqualDifferences) { contract::expect_gradients_equal_differences(make); }

TEST(NativeLogisticRegression, LargeLogitsGiveFiniteLosses) { contract::expect_finite_losses_of_large_logits(make); }

// A pass must not count what a thread that is missing now has left from the pass before.
TEST(NativeLogisticRegression, ATeamSmallerThanAskedForDoesAllTheWork) {
  const FrameworkOptions options = logistic_options(40, 0.01, 3), alone = logistic_options(40, 0.01, 1);
  const Samples before(options.model, 9), batch(options.model, 11, 6);
  const auto framework = make(options), expected = make(alone);
  framework->initialise();
  expected->initialise();
  step(*framework, before.view());
  const contract::OneThreadOnly limit;
  EXPECT_EQ(step(*framework, batch.view()), step(*expected, batch.view()));
  EXPECT_TRUE(at::equal(flat_tensor(framework->gradients()), flat_tensor(expected->gradients())));
  EXPECT_TRUE(std::ranges::equal(framework->outputs(), expected->outputs()));
}

TEST(NativeLogisticRegression, IsAsExactAsLibTorchAndReadsRowsWhereTheyLie) {
  RandomSequence random(4);
  std::vector<float> features;
  for (int i = 0; i < 200 * 300; ++i) features.push_back(static_cast<float>(random.normal() * 0.05));
  std::vector<int64_t> rows, labels;
  for (int i = 0; i < 131; ++i) {
    rows.push_back(static_cast<int64_t>(random.below(200)));
    labels.push_back(static_cast<int64_t>(random.below(2)));
  }
  const BatchView batch = gathered_view(rows_view(features, labels, 300), features, rows);
  for (const int threads : {1, 2, 3}) {
    const FrameworkOptions options = logistic_options(300, 0.01, threads);
    const auto ours = make(options);
    const auto peer = torch_framework::make(options);
    ours->initialise();
    peer->initialise();
    EXPECT_EQ(ours->effective()["kernels"], Json::array({"gather+linear+loss+gradient"}));
    EXPECT_NEAR(step(*ours, batch), step(*peer, batch), 1e-6);
    const at::Tensor x = at::from_blob(features.data(), {200, 300}).index_select(0, at::tensor(rows)).to(at::kDouble);
    const at::Tensor w = flat_tensor(peer->parameters()).narrow(0, 0, 300).to(at::kDouble).requires_grad_(true);
    const at::Tensor value =
        at::binary_cross_entropy_with_logits(x.mv(w), at::tensor(labels).to(at::kDouble)) + 0.005 * w.dot(w);
    value.backward();
    const auto error = [&](Framework& framework) {
      return norm_of(flat_tensor(framework.gradients()).narrow(0, 0, 300).to(at::kDouble) - w.grad());
    };
    EXPECT_LE(error(*ours), std::max(2 * error(*peer), 2 * kEps * norm_of(w.grad())));
  }
}

// --- sparse rows

TEST(NativeSparseRows, GiveWhatDenseRowsGiveFromTheSameStart) { contract::expect_sparse_rows_equal_dense_ones(make); }

TEST(NativeSparseRows, AreTheSameBitsForAnyNumberOfThreads) { contract::expect_sparse_rows_by_any_threads(make); }

TEST(NativeSparseRows, TouchTheColumnsOfTheirEntriesAlone) { contract::expect_gradients_of_entries_alone(make); }

TEST(NativeSparseRows, AreRefusedByOtherModelsAndPrecisions) { contract::expect_sparse_rows_refused_else(make); }

}  // namespace
}  // namespace mlbench::framework::native_framework
