#include "mlbench/models/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "mlbench/base/errors.h"
#include "mlbench/base/sha256.h"
#include "mlbench/models/chain.h"
#include "mlbench/models/layer_kinds.h"
#include "mlbench/models/smooth_test.h"

namespace mlbench::models {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

spec::TaskSpec task_of(const std::string& model) {
  spec::TaskSpec task;
  task.data.name = "fashion-mnist";
  task.data.sample_shape = {1, 28, 28};
  task.data.classes = 10;
  task.model.name = model;
  return task;
}

TEST(MnistCnn, HasTheLayersAndParametersOfTheTask) {
  const ModelDescription model = describe_model(task_of("mnist-cnn"));
  EXPECT_EQ(model.name, "mnist-cnn");
  EXPECT_EQ(model.parameter_count(), 3274634);
  EXPECT_EQ(model.outputs, 10);
  std::vector<std::string> kinds, names;
  for (const LayerSpec& layer : model.layers) kinds.push_back(layer.kind);
  for (const ParameterSpec& parameter : model.parameters) names.push_back(parameter.name);
  EXPECT_THAT(kinds, ElementsAre("conv2d", "relu", "max_pool2d", "conv2d", "relu", "max_pool2d", "flatten", "linear",
                                 "relu", "dropout", "linear"));
  EXPECT_THAT(names, ElementsAre("conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias", "fc1.weight", "fc1.bias",
                                 "fc2.weight", "fc2.bias"));
  EXPECT_THAT(model.parameters[2].shape, ElementsAre(64, 32, 5, 5));
  EXPECT_THAT(model.parameters[4].shape, ElementsAre(1024, 3136));
  EXPECT_EQ(model.layers[9].options["p"], 0.4);
  EXPECT_EQ(model.layers[3].options["padding"], 2);
}

TEST(Models, AreThoseOfTheTasks) {
  EXPECT_THAT(model_names(),
              ElementsAre("mnist-cnn", "resnet-cifar", "resnet18-cifar", "vgg-cifar", "resnet50", "vgg16",
                          "logistic_regression", "linear_regression", "awd-lstm", "gnmt", "transformer"));
}

TEST(Models, HaveLayersOfSomeKinds) {
  EXPECT_THAT(kinds_in(describe_model(spec::find_task("fashion-mnist", "", "", {}).task)),
              ElementsAre("conv2d", "relu", "max_pool2d", "flatten", "linear", "dropout"));
  EXPECT_EQ(main_work(describe_model(spec::find_task("1a", "2021", "", {}).task)), kConvolutions);
  EXPECT_EQ(main_work(describe_model(spec::find_task("4b", "", "", {}).task)), kProducts);
  const std::vector<std::string> kinds = kinds_in(describe_model(spec::find_task("1a", "2021", "", {}).task));
  EXPECT_EQ(std::ranges::count(kinds, "residual"), 1);
  EXPECT_EQ(std::ranges::count(kinds, "batch_norm2d"), 1) << "those of the residual layers are the same kind";
  for (const std::string& kind : kinds) EXPECT_EQ(find_layer_kind(kind).name, kind);
}

TEST(Models, SmoothVariantsHaveNoKinkAndTheSameParameters) {
  const ModelDescription model = describe_model(task_of("mnist-cnn")), smooth_model = smooth(model);
  EXPECT_EQ(smooth_model.parameters.size(), model.parameters.size());
  std::vector<std::string> kinds;
  for (const LayerSpec& layer : smooth_model.layers) kinds.push_back(layer.kind);
  EXPECT_THAT(kinds, ElementsAre("conv2d", "softplus", "avg_pool2d", "conv2d", "softplus", "avg_pool2d", "flatten",
                                 "linear", "softplus", "dropout", "linear"));
}

TEST(Pools, HaveAStrideAndPaddingOfTheirOwn) {
  const ModelDescription model = Chain({3, 16, 8}).pool2d("max_pool2d", {3, 2, 1}).flatten().linear("fc", 5).finish();
  EXPECT_EQ(model.layers[0].options, Json({{"kernel", 3}, {"stride", 2}, {"padding", 1}}));
  EXPECT_THAT(model.parameters[0].shape, ElementsAre(5, 3 * 8 * 4));
  const ModelDescription halved = Chain({3, 16, 8}).pool2d("avg_pool2d", 2).flatten().linear("fc", 5).finish();
  EXPECT_EQ(halved.layers[0].options, Json({{"kernel", 2}, {"stride", 2}, {"padding", 0}}));
  EXPECT_THAT(
      [] {
        Chain({3, 16, 9}).pool2d("max_pool2d", {3, 2, 1});
      },
      ThrowsMessage<UserError>(
          HasSubstr("layer max_pool2d of the model takes every pixel number 2, but samples of shape "
                    "{3, 16, 9} are 16 x 9 there")));
  EXPECT_THROW(Chain({3, 2, 2}).pool2d("max_pool2d", {4, 1, 0}), InternalError) << "no square fits";
}

TEST(Pools, AdaptToASize) {
  const ModelDescription model = Chain({3, 16, 1}).adaptive_avg_pool2d(7).flatten().linear("fc", 5).finish();
  EXPECT_EQ(model.layers[0].options, Json({{"size", 7}}));
  EXPECT_THAT(model.parameters[0].shape, ElementsAre(5, 3 * 7 * 7));
}

// Parameters of a CIFAR ResNet of depth 6n + 2, counted by hand: convolutions have k*k*in*out, batch norms 2*channels.
int64_t count_resnet(int64_t n, bool v1, bool stem_norm, bool final_norm) {
  int64_t count = 3 * 16 * 9 + (stem_norm ? 32 : 0) + (final_norm ? 128 : 0) + 64 * 10 + 10;
  int64_t in = 16;
  for (const int64_t out : {16, 32, 64}) {
    for (int64_t block = 0; block < n; ++block, in = out) {
      count += 9 * in * out + 9 * out * out + 2 * (v1 ? out : in) + 2 * out;
      if (in != out) count += in * out + 2 * out;
    }
  }
  return count;
}

TEST(ResNetCifar, HasTheParametersOfEachVariant) {
  spec::TaskSpec task = task_of("resnet-cifar");
  task.data.sample_shape = {3, 32, 32};
  const auto parameters = [&](const char* version, int64_t depth) {
    task.model.options = {{"version", version}, {"depth", depth}};
    return describe_model(task).parameter_count();
  };
  EXPECT_EQ(parameters("v1", 20), 272474);
  EXPECT_EQ(parameters("v2", 20), 272474);
  EXPECT_EQ(parameters("v2-mlbench", 20), 272378);
  // The count is that of v2, less two norms of projections (32 and 64 channels), plus a projection of 16 to 16.
  EXPECT_EQ(parameters("v2-tensorflow", 20), 272474 - 2 * 32 - 2 * 64 + 16 * 16);
  for (const int64_t depth : {20, 32, 44, 56}) {
    const int64_t n = (depth - 2) / 6;
    EXPECT_EQ(parameters("v1", depth), count_resnet(n, true, true, false));
    EXPECT_EQ(parameters("v2", depth), count_resnet(n, false, false, true));
    EXPECT_EQ(parameters("v2-mlbench", depth), count_resnet(n, false, true, false));
  }
  EXPECT_THROW(parameters("v3", 20), UserError);
  EXPECT_THROW(parameters("v1", 21), UserError);
  task.data.sample_shape = {3, 30, 30};
  EXPECT_THROW(parameters("v1", 20), UserError);
}

TEST(ResNetCifar, StartsAsHeAndBuffersComeLast) {
  spec::TaskSpec task = task_of("resnet-cifar");
  task.data.sample_shape = {3, 32, 32};
  const ModelDescription model = describe_model(task);
  const auto first_buffer = std::ranges::find(model.parameters, false, &ParameterSpec::trainable);
  EXPECT_TRUE(std::all_of(first_buffer, model.parameters.end(), [](const auto& p) { return !p.trainable; }));
  EXPECT_EQ(model.parameters.end() - first_buffer, 2 * 21) << "19 convolutions of depth 20 and 2 shortcuts";
  const auto weight = std::ranges::find(model.parameters, "stage2.block1.conv1.weight", &ParameterSpec::name);
  ASSERT_NE(weight, model.parameters.end());
  EXPECT_EQ(weight->initialiser.kind, Initialiser::Kind::kNormal);
  EXPECT_DOUBLE_EQ(weight->initialiser.scale, std::sqrt(2.0 / (32 * 9)));
  EXPECT_THAT(weight->shape, ElementsAre(32, 16, 3, 3));
}

TEST(ResNetCifar, HasTheNetworkOfTheTensorFlowImage) {
  spec::TaskSpec task = task_of("resnet-cifar");
  task.data.sample_shape = {3, 32, 32};
  task.model.options = {{"version", "v2-tensorflow"}, {"l2", 2e-4}};
  const ModelDescription model = describe_model(task);
  EXPECT_EQ(model.l2, 2e-4);
  std::vector<std::string> shortcuts;
  const auto start_of = [&](const std::string& name) {
    return std::ranges::find(model.parameters, name, &ParameterSpec::name)->initialiser;
  };
  for (const ParameterSpec& parameter : model.parameters) {
    if (parameter.name.find("shortcut") != std::string::npos) shortcuts.push_back(parameter.name);
  }
  EXPECT_THAT(shortcuts, ElementsAre("stage1.block1.shortcut.conv.weight", "stage2.block1.shortcut.conv.weight",
                                     "stage3.block1.shortcut.conv.weight"));
  // The fan-in of the first convolution of stage 2 is 16 channels of 3 x 3, and the dense layer has 64 + 10.
  EXPECT_EQ(start_of("stage2.block1.conv1.weight").kind, Initialiser::Kind::kNormal);
  EXPECT_DOUBLE_EQ(start_of("stage2.block1.conv1.weight").scale, 1.0 / 12);
  EXPECT_EQ(start_of("fc.weight").kind, Initialiser::Kind::kUniform);
  EXPECT_DOUBLE_EQ(start_of("fc.weight").scale, std::sqrt(6.0 / 74));
  EXPECT_EQ(start_of("fc.bias").kind, Initialiser::Kind::kZeros);
  const auto check_momentum = [](const auto& self, const std::vector<LayerSpec>& layers) -> int {
    int norms = 0;
    for (const LayerSpec& layer : layers) {
      if (layer.kind == "batch_norm2d") {
        ++norms;
        EXPECT_EQ(layer.options.at("momentum"), 0.003) << layer.name;
      }
      norms += self(self, layer.body) + self(self, layer.shortcut);
    }
    return norms;
  };
  EXPECT_EQ(check_momentum(check_momentum, model.layers), 2 * 9 + 1);
}

spec::TaskSpec cifar_task(const std::string& model, int64_t classes, const Json& options) {
  spec::TaskSpec task = task_of(model);
  task.data.sample_shape = {3, 32, 32};
  task.data.classes = classes;
  task.model.options = options;
  return task;
}

const ParameterSpec& parameter_of(const ModelDescription& model, const std::string& name) {
  const auto found = std::ranges::find(model.parameters, name, &ParameterSpec::name);
  if (found == model.parameters.end()) throw InternalError("no parameter " + name);
  return *found;
}

// Parameters of torchvision's ResNet-18 with a 3x3 stem, counted by hand.
TEST(ResNet18Cifar, HasTheParametersOfEachVersion) {
  const auto model = [](const char* version, int64_t classes) {
    return describe_model(cifar_task("resnet18-cifar", classes, {{"version", version}}));
  };
  EXPECT_EQ(model("v1", 10).parameter_count(), 11173962);
  EXPECT_EQ(model("v1", 100).parameter_count(), 11220132);
  int64_t count = 3 * 64 * 9 + 2 * 64 + 512 * 10 + 10, in = 64;
  for (const int64_t out : {64, 64, 128, 128, 256, 256, 256, 256}) {
    count += 9 * in * out + 9 * out * out + 2 * in + 2 * out;
    in = out;
  }
  count += 64 * 128 + 128 * 256 + 256 * 256;  // projections
  EXPECT_EQ(model("v2-mlbench", 10).parameter_count(), count);
  EXPECT_EQ(count, 5205962);

  // Projections stand where a stage begins with stride 2, and only v1 normalises them.
  const auto shapes = [&](const char* version) {
    std::vector<std::string> names;
    for (const ParameterSpec& parameter : model(version, 10).parameters) {
      if (parameter.trainable && parameter.name.find("shortcut") != std::string::npos) names.push_back(parameter.name);
    }
    return names;
  };
  EXPECT_EQ(shapes("v1").size(), 9U) << "weight of the convolution, weight and bias of the norm";
  EXPECT_THAT(shapes("v2-mlbench"),
              ElementsAre("stage2.block1.shortcut.conv.weight", "stage3.block1.shortcut.conv.weight",
                          "stage4.block1.shortcut.conv.weight"));
  EXPECT_EQ(model("v2-mlbench", 10).layers.rbegin()[1].kind, "global_avg_max_pool2d");

  // The fan of a 3x3 convolution of 64 channels is 576, in and out.
  const Initialiser he = parameter_of(model("v1", 10), "stage1.block1.conv1.weight").initialiser;
  EXPECT_EQ(he.kind, Initialiser::Kind::kNormal);
  EXPECT_DOUBLE_EQ(he.scale, std::sqrt(2.0 / 576));
  const Initialiser default_start = parameter_of(model("v2-mlbench", 10), "stage1.block1.conv1.weight").initialiser;
  EXPECT_EQ(default_start.kind, Initialiser::Kind::kUniform);
  EXPECT_DOUBLE_EQ(default_start.scale, 1 / std::sqrt(576.0));
}

TEST(ResNet18Cifar, RefusesOtherVersionsShapesAndSizes) {
  EXPECT_THAT(
      [] {
        describe_model(cifar_task("resnet18-cifar", 10, {{"version", "v2"}}));
      },
      ThrowsMessage<UserError>(
          HasSubstr("model 'resnet18-cifar' has no version 'v2': did you mean 'v2-mlbench'? valid: v1, ")));
  spec::TaskSpec task = cifar_task("resnet18-cifar", 10, Json::object());
  task.data.sample_shape = {2000};
  EXPECT_THAT([&] { describe_model(task); }, ThrowsMessage<UserError>(HasSubstr("takes images")));
  task.data.sample_shape = {3, 30, 30};
  EXPECT_THAT([&] { describe_model(task); }, ThrowsMessage<UserError>(HasSubstr("15 x 15")));
}

TEST(VggCifar, HasTheParametersOfEachDepth) {
  const auto model = [](int64_t depth, int64_t classes) {
    return describe_model(cifar_task("vgg-cifar", classes, {{"depth", depth}}));
  };
  const std::pair<int64_t, int64_t> published[] = {{11, 9231114}, {13, 9416010}, {16, 14728266}, {19, 20040522}};
  for (const auto& [depth, parameters] : published) {
    EXPECT_EQ(model(depth, 10).parameter_count(), parameters) << depth;
    EXPECT_EQ(model(depth, 100).parameter_count(), parameters + 90 * 513) << depth;
    const auto weights = std::ranges::count_if(model(depth, 10).parameters, [](const ParameterSpec& parameter) {
      return parameter.use == TensorUse::kMatrix;
    });
    EXPECT_EQ(weights, depth == 11 ? 9 : depth - 2) << "convolutions, and one dense layer instead of three";
  }
  EXPECT_EQ(describe_model(cifar_task("vgg-cifar", 10, Json::object())).parameter_count(), 14728266);
  EXPECT_THAT(parameter_of(model(16, 10), "stage5.conv3.weight").shape, ElementsAre(512, 512, 3, 3));
  EXPECT_THAT(parameter_of(model(16, 10), "stage5.conv3.bias").shape, ElementsAre(512));
  EXPECT_THAT(parameter_of(model(16, 10), "fc.weight").shape, ElementsAre(10, 512));
}

TEST(VggCifar, RefusesOtherDepthsShapesAndSizes) {
  EXPECT_THAT(
      [] {
        describe_model(cifar_task("vgg-cifar", 10, {{"depth", 12}}));
      },
      ThrowsMessage<UserError>(HasSubstr("no depth 12; valid: 11, 13, 16, 19")));
  EXPECT_THAT(
      [] {
        describe_model(cifar_task("vgg-cifar", 10, {{"depth", 110}}));
      },
      ThrowsMessage<UserError>(HasSubstr("is 110; expected a whole number from 11 to 19")));
  spec::TaskSpec task = cifar_task("vgg-cifar", 10, Json::object());
  task.data.sample_shape = {1, 28, 28};
  EXPECT_THAT([&] { describe_model(task); }, ThrowsMessage<UserError>(HasSubstr("7 x 7")));
}

spec::TaskSpec imagenet_task(const std::string& model, const Json& options = Json::object(), int64_t size = 224) {
  spec::TaskSpec task = task_of(model);
  task.data.sample_shape = {3, size, size};
  task.data.classes = 1000;
  task.model.options = options;
  return task;
}

// Strides of the convolutions of a residual layer's body.
std::vector<int64_t> strides_of(const LayerSpec& residual) {
  std::vector<int64_t> strides;
  for (const LayerSpec& layer : residual.body) {
    if (layer.kind == "conv2d") strides.push_back(layer.options.at("stride"));
  }
  return strides;
}

TEST(ResNet50, HasTorchvisionsParametersAndStrides) {
  for (const char* version : {"v1.5", "v1"}) {
    const ModelDescription model = describe_model(imagenet_task("resnet50", {{"version", version}}));
    EXPECT_EQ(model.parameter_count(), 25557032) << version;
    std::vector<LayerSpec> blocks;
    std::ranges::copy_if(model.layers, std::back_inserter(blocks), [](const auto& one) { return !one.body.empty(); });
    ASSERT_EQ(blocks.size(), 16U);
    for (size_t i = 0; i < blocks.size(); ++i) {
      const bool begins = i == 0 || i == 3 || i == 7 || i == 13, halves = begins && i > 0;
      EXPECT_EQ(blocks[i].shortcut.empty(), !begins) << i;
      if (begins) {
        EXPECT_EQ(blocks[i].shortcut[0].options.at("stride"), halves ? 2 : 1) << i;
      }
      const bool v1 = version == std::string("v1");
      EXPECT_THAT(strides_of(blocks[i]), ElementsAre(halves && v1 ? 2 : 1, halves && !v1 ? 2 : 1, 1)) << i;
    }
  }
  EXPECT_THAT(strides_of(describe_model(imagenet_task("resnet50")).layers[10]), ElementsAre(1, 2, 1)) << "v1.5";
  EXPECT_EQ(describe_model(imagenet_task("resnet50", Json::object(), 64)).parameter_count(), 25557032)
      << "whatever the size of the images";
}

void expect_start(const ModelDescription& model, const std::string& name, const Initialiser& expected) {
  const Initialiser& start = parameter_of(model, name).initialiser;
  EXPECT_EQ(start.kind, expected.kind) << name;
  EXPECT_DOUBLE_EQ(start.scale, expected.scale) << name;
}

TEST(ResNet50, StartsAsTorchvisions) {
  const ModelDescription model = describe_model(imagenet_task("resnet50"));
  expect_start(model, "stem.conv.weight", normal(std::sqrt(2.0 / (64 * 49))));
  expect_start(model, "stage2.block1.conv3.weight", normal(std::sqrt(2.0 / 512)));
  expect_start(model, "stage2.block1.shortcut.conv.weight", normal(std::sqrt(2.0 / 512)));
  expect_start(model, "stage4.block3.bn3.weight", ones());
  expect_start(model, "stage4.block3.bn3.bias", zeros());
  expect_start(model, "fc.weight", uniform(1 / std::sqrt(2048.0)));
  expect_start(model, "fc.bias", uniform(1 / std::sqrt(2048.0)));
}

TEST(ResNet50, RefusesOtherVersionsAndSizes) {
  EXPECT_THAT(
      [] {
        describe_model(imagenet_task("resnet50", {{"version", "v2"}}));
      },
      ThrowsMessage<UserError>(HasSubstr("valid: v1, v1.5")));
  EXPECT_THAT([] { describe_model(imagenet_task("resnet50", Json::object(), 112 + 8)); },
              ThrowsMessage<UserError>(HasSubstr("divide evenly")));
}

TEST(Vgg16, HasTorchvisionsParametersAndLayers) {
  const ModelDescription model = describe_model(imagenet_task("vgg16"));
  EXPECT_EQ(model.parameter_count(), 138357544);
  EXPECT_EQ(describe_model(imagenet_task("vgg16", Json::object(), 32)).parameter_count(), 138357544)
      << "whatever the size of the images";
  EXPECT_THAT(parameter_of(model, "fc1.weight").shape, ElementsAre(4096, 512 * 7 * 7));
  std::string kinds;
  for (const LayerSpec& layer : model.layers) {
    if (layer.kind == "conv2d") kinds += 'c';
    if (layer.kind == "max_pool2d") kinds += 'm';
    if (layer.kind == "adaptive_avg_pool2d") kinds += 'a';
    if (layer.kind == "linear") kinds += 'l';
    if (layer.kind == "dropout") kinds += 'd';
  }
  EXPECT_EQ(kinds, "ccmccmcccmcccmcccmaldldl");
  EXPECT_EQ(model.layers.rbegin()[1].options.at("p"), 0.5);
}

TEST(Vgg16, StartsAsTorchvisions) {
  const ModelDescription model = describe_model(imagenet_task("vgg16"));
  expect_start(model, "stage3.conv1.weight", normal(std::sqrt(2.0 / (256 * 9))));
  expect_start(model, "stage3.conv1.bias", zeros());
  expect_start(model, "fc1.weight", normal(0.01));
  expect_start(model, "fc3.weight", normal(0.01));
  expect_start(model, "fc3.bias", zeros());
}

TEST(Vgg16, HasOptionsForDropoutAndDenseLayers) {
  const ModelDescription model = describe_model(imagenet_task("vgg16", {{"dropout", 0.25}, {"hidden", 64}}));
  EXPECT_EQ(model.layers.rbegin()[1].options.at("p"), 0.25);
  EXPECT_THAT(parameter_of(model, "fc2.weight").shape, ElementsAre(64, 64));
  EXPECT_THAT(
      [] {
        describe_model(imagenet_task("vgg16", {{"hidden", 0}}));
      },
      ThrowsMessage<UserError>(HasSubstr("expected a whole number from 1 to 65536")));
  EXPECT_THAT(
      [] {
        describe_model(imagenet_task("vgg16", {{"depth", 19}}));
      },
      ThrowsMessage<UserError>(HasSubstr("no option 'depth'")));
}

TEST(Layout, SaysWhatEachTensorIsUsedFor) {
  spec::TaskSpec task = task_of("resnet-cifar");
  task.data.sample_shape = {3, 32, 32};
  const FlatLayout layout = lay_out(describe_model(task));
  const auto use_of = [&](const std::string& name) {
    const auto range = std::ranges::find(layout.ranges, name, &FlatRange::name);
    EXPECT_NE(range, layout.ranges.end()) << name;
    return range->use;
  };
  EXPECT_EQ(use_of("stage2.block1.conv1.weight"), TensorUse::kMatrix);
  EXPECT_EQ(use_of("stage2.block1.bn1.weight"), TensorUse::kNorm);
  EXPECT_EQ(use_of("stage2.block1.bn1.bias"), TensorUse::kNorm);
  EXPECT_EQ(use_of("fc.weight"), TensorUse::kMatrix);
  EXPECT_EQ(use_of("fc.bias"), TensorUse::kVector);
  for (const FlatRange& range : layout.ranges) {
    EXPECT_EQ(range.shape.size() >= 2, range.use == TensorUse::kMatrix) << range.name;
  }
}

TEST(MnistCnn, FollowsDataAndOptions) {
  spec::TaskSpec task = task_of("mnist-cnn");
  task.data.sample_shape = {3, 32, 32};
  task.data.classes = 100;
  task.model.options = {{"dropout", 0.1}};
  const ModelDescription model = describe_model(task);
  EXPECT_THAT(model.parameters[0].shape, ElementsAre(32, 3, 5, 5));
  EXPECT_THAT(model.parameters[4].shape, ElementsAre(1024, 64 * 8 * 8));
  EXPECT_EQ(model.outputs, 100);
  EXPECT_EQ(model.layers[9].options["p"], 0.1);
}

TEST(LogisticRegression, IsOneLinearLayerWithoutBias) {
  spec::TaskSpec task = task_of("logistic_regression");
  task.data.sample_shape = {2000};
  task.data.classes = 2;
  task.model.options = {{"l2", 2.5e-6}};
  const ModelDescription model = describe_model(task);
  EXPECT_EQ(model.parameter_count(), 2000);
  EXPECT_EQ(model.outputs, 1);
  EXPECT_EQ(model.l2, 2.5e-6);
  ASSERT_EQ(model.layers.size(), 1U);
  EXPECT_EQ(model.layers[0].kind, "linear");
  EXPECT_EQ(model.layers[0].options["bias"], false);
  ASSERT_EQ(model.parameters.size(), 1U);
  EXPECT_EQ(model.parameters[0].name, "linear.weight");
  EXPECT_THAT(model.parameters[0].shape, ElementsAre(1, 2000));
  EXPECT_DOUBLE_EQ(model.parameters[0].initialiser.scale, 1 / std::sqrt(2000.0));

  task.data.sample_shape = {500};
  EXPECT_EQ(describe_model(task).parameter_count(), 500);
}

TEST(LogisticRegression, RefusesImagesManyClassesAndNegativePenalties) {
  EXPECT_THAT([] { describe_model(task_of("logistic_regression")); },
              ThrowsMessage<UserError>(HasSubstr("one dimension and 2 classes; data 'fashion-mnist' has shape {1, 28, "
                                                 "28} and 10 classes")));
  spec::TaskSpec task = task_of("logistic_regression");
  task.data.sample_shape = {20};
  task.data.classes = 2;
  task.model.options = {{"l2", -1.0}};
  EXPECT_THAT(
      [&] { describe_model(task); },
      ThrowsMessage<UserError>(HasSubstr("'l2' of model 'logistic_regression' is -1.0; expected a number from 0")));
  task.model.options = {{"l3", 0.1}};
  EXPECT_THAT([&] { describe_model(task); }, ThrowsMessage<UserError>(HasSubstr("no option 'l3'")));
}

TEST(LinearRegression, IsOneLinearLayerWithoutBiasAndWithPenalties) {
  spec::TaskSpec task = task_of("linear_regression");
  task.data.sample_shape = {50};
  task.data.classes = 7;
  task.loss = "mean_squared_error";
  task.model.options = {{"l1", 0.5}, {"l2", 0.25}};
  const ModelDescription model = describe_model(task);
  EXPECT_EQ(model.parameter_count(), 50);
  EXPECT_EQ(model.outputs, 1);
  EXPECT_EQ(model.loss.kind, "mean_squared_error");
  EXPECT_EQ(model.l1, 0.5);
  EXPECT_EQ(model.l2, 0.25);
  ASSERT_EQ(model.parameters.size(), 1U);
  EXPECT_THAT(model.parameters[0].shape, ElementsAre(1, 50));

  task.model = {"logistic_regression", {{"l1", 0.5}}};
  task.data.classes = 2;
  task.loss = "binary_cross_entropy";
  EXPECT_EQ(describe_model(task).l1, 0.5);
  EXPECT_EQ(describe_model(task).l2, 0);
}

TEST(LinearRegression, RefusesImagesAndNegativePenalties) {
  EXPECT_THAT(
      [] { describe_model(task_of("linear_regression")); },
      ThrowsMessage<UserError>(HasSubstr("takes samples of one dimension; data 'fashion-mnist' has shape {1, ")));
  spec::TaskSpec task = task_of("linear_regression");
  task.data.sample_shape = {20};
  task.model.options = {{"l1", -1.0}};
  EXPECT_THAT(
      [&] { describe_model(task); },
      ThrowsMessage<UserError>(HasSubstr("'l1' of model 'linear_regression' is -1.0; expected a number from 0")));
}

TEST(Models, HaveAsManyOutputsAsTheLossTakes) {
  spec::TaskSpec task = task_of("mnist-cnn");
  task.loss = "mean_squared_error";
  EXPECT_THAT([&] { describe_model(task); },
              ThrowsMessage<UserError>(HasSubstr("model 'mnist-cnn' has 10 outputs per sample, and the loss "
                                                 "'mean_squared_error' takes one")));
  task.loss = "binary_cross_entropy";
  EXPECT_THROW(describe_model(task), UserError);
  task = task_of("linear_regression");
  task.data.sample_shape = {20};
  task.loss = "cross_entropy";
  EXPECT_THAT([&] { describe_model(task); },
              ThrowsMessage<UserError>(HasSubstr("model 'linear_regression' has 1 output per sample, and the loss "
                                                 "'cross_entropy' takes one for each class")));
  task.loss = "token_cross_entropy";
  EXPECT_THAT([&] { describe_model(task); }, ThrowsMessage<UserError>(HasSubstr("expected a loss over samples")));
}

TEST(Models, RefuseWhatTheyCannotBuild) {
  EXPECT_THAT([] { describe_model(task_of("mnist_cnn")); },
              ThrowsMessage<UserError>(
                  HasSubstr("unknown model 'mnist_cnn': did you mean 'mnist-cnn'? valid: mnist-cnn, resnet-cifar, ")));
  const auto with = [](auto change) {
    return [change] {
      spec::TaskSpec task = task_of("mnist-cnn");
      change(task);
      describe_model(task);
    };
  };
  EXPECT_THAT(with([](auto& task) {
                task.model.options = {{"drop", 0.4}};
              }),
              ThrowsMessage<UserError>(HasSubstr("no option 'drop': did you mean 'dropout'? valid: dropout")));
  EXPECT_THAT(
      with([](auto& task) {
        task.model.options = {{"dropout", "high"}};
      }),
      ThrowsMessage<UserError>(HasSubstr("option 'dropout' of model 'mnist-cnn' is \"high\"; expected a number")));
  EXPECT_THAT(with([](auto& task) {
                task.model.options = {{"dropout", 1.0}};
              }),
              ThrowsMessage<UserError>(HasSubstr("expected 0 <= dropout < 1")));
  EXPECT_THAT(with([](auto& task) {
                task.data.sample_shape = {1, 30, 28};
              }),
              ThrowsMessage<UserError>(HasSubstr("15 x 14")));
  EXPECT_THAT(with([](auto& task) { task.data.sample_shape = {2000}; }),
              ThrowsMessage<UserError>(HasSubstr("takes images")));
}

TEST(ResNetCifar, OfAbsurdDepthIsRefusedAndNotBuilt) {
  spec::TaskSpec task = task_of("resnet-cifar");
  for (const int64_t depth : {int64_t{2}, int64_t{1208}, int64_t{6'000'000'000'000'000'002}}) {
    task.model.options = {{"depth", depth}};
    EXPECT_THAT([&] { describe_model(task); }, ThrowsMessage<UserError>(HasSubstr("expected a whole number from 8")));
  }
}

// kaiming_uniform(a = sqrt(5)) is uniform within +-1/sqrt(fan_in), for weights and biases.
TEST(Initialise, DrawsPyTorchsDefaultsFromTheSeed) {
  const ModelDescription model = describe_model(task_of("mnist-cnn"));
  const double fan_in[] = {25, 25, 800, 800, 3136, 3136, 1024, 1024};
  for (size_t i = 0; i < model.parameters.size(); ++i) {
    const ParameterSpec& parameter = model.parameters[i];
    const double bound = 1.0 / std::sqrt(fan_in[i]);
    EXPECT_EQ(parameter.initialiser.kind, Initialiser::Kind::kUniform) << parameter.name;
    EXPECT_DOUBLE_EQ(parameter.initialiser.scale, bound) << parameter.name;
  }
  std::vector<float> weights(1024 * 3136);
  initialise(model.parameters[4], 4, 42, weights);
  const double bound = 1.0 / 56.0;
  double sum = 0, squares = 0;
  for (const float w : weights) {
    ASSERT_LE(std::abs(w), bound);
    sum += w;
    squares += double{w} * w;
  }
  const auto n = static_cast<double>(weights.size());
  EXPECT_NEAR(sum / n, 0, 4 * bound / std::sqrt(3 * n));  // four standard deviations of the mean
  EXPECT_NEAR(squares / n / (bound * bound / 3), 1, 4 * std::sqrt(0.8 / n));
}

TEST(Initialise, IsAPureFunctionOfSeedAndIndex) {
  const ParameterSpec parameter{"w", {3, 5}, {.kind = Initialiser::Kind::kNormal, .scale = 2}, true};
  std::vector<float> a(15), b(15);
  initialise(parameter, 3, 42, a);
  initialise(parameter, 3, 42, b);
  EXPECT_EQ(a, b);
  initialise(parameter, 4, 42, b);
  EXPECT_NE(a, b);
  initialise(parameter, 3, 43, b);
  EXPECT_NE(a, b);
  initialise({"w", {15}, {.kind = Initialiser::Kind::kOnes}, true}, 0, 1, a);
  EXPECT_EQ(a, std::vector<float>(15, 1.0F));
  initialise({"w", {15}, {.kind = Initialiser::Kind::kZeros}, true}, 0, 1, a);
  EXPECT_EQ(a, std::vector<float>(15, 0.0F));
}

TEST(Layout, StartsEachTensorAt64BytesParametersApartFromBuffers) {
  ModelDescription model = describe_model(task_of("mnist-cnn"));
  model.parameters.push_back({"bn.running_mean", {20}, {}, false});
  model.parameters.push_back({"bn.running_var", {16}, {}, false});
  const FlatLayout layout = lay_out(model);
  ASSERT_EQ(layout.ranges.size(), 10U);
  int64_t end = 0;
  for (size_t i = 0; i < 8; ++i) {
    const FlatRange& range = layout.ranges[i];
    EXPECT_EQ(range.offset * sizeof(float) % 64, 0U) << range.name;
    EXPECT_GE(range.offset, end) << range.name;
    EXPECT_LT(range.offset, end + 16) << range.name;
    end = range.offset + range.count;
  }
  EXPECT_EQ(layout.parameter_elements, 3274640);  // 10 biases padded to 16
  EXPECT_EQ(layout.parameter_count(), 3274634);
  EXPECT_EQ(layout.ranges[8].offset, 0);
  EXPECT_EQ(layout.ranges[9].offset, 32);
  EXPECT_EQ(layout.buffer_elements, 48);
}

TEST(WeightsHash, CoversLogicalValuesOnly) {
  ModelDescription model;
  model.parameters = {{"a", {3}, {}, true}, {"b", {2}, {}, true}, {"mean", {1}, {}, false}};
  const FlatLayout layout = lay_out(model);
  std::vector<float> parameters(static_cast<size_t>(layout.parameter_elements), -7.0F);
  std::vector<float> buffers(static_cast<size_t>(layout.buffer_elements), -7.0F);
  parameters[0] = 1, parameters[1] = 2, parameters[2] = 3, parameters[16] = 4, parameters[17] = 5, buffers[0] = 6;
  const std::string hash = weights_sha256(layout, parameters, buffers);
  const float logical[] = {1, 2, 3, 4, 5, 6};
  Sha256 expected;
  expected.update(std::as_bytes(std::span(logical)));
  EXPECT_EQ(hash, expected.hex());

  parameters[3] = 8, parameters[31] = 8, buffers[1] = 8;  // padding
  EXPECT_EQ(weights_sha256(layout, parameters, buffers), hash);
  parameters[17] = 8;
  EXPECT_NE(weights_sha256(layout, parameters, buffers), hash);
}

TEST(Dropout, KeyDependsOnSeedRankStepAndLayer) {
  const uint64_t key = dropout_key(1, 2, 3, 4);
  EXPECT_EQ(key, dropout_key(1, 2, 3, 4));
  EXPECT_NE(key, dropout_key(2, 2, 3, 4));
  EXPECT_NE(key, dropout_key(1, 3, 3, 4));
  EXPECT_NE(key, dropout_key(1, 2, 4, 4));
  EXPECT_NE(key, dropout_key(1, 2, 3, 5));
}

}  // namespace
}  // namespace mlbench::models
