// One step of the tasks' models against PyTorch (oracle.py, run at test time by a Python that has its own
// PyTorch): loss, gradients and the parameters after the step. Rule of comparison: per tensor, the norm of the error
// against PyTorch's float64 result is at most twice that of PyTorch's own float32 result, or below a stated multiple of
// eps x norm; tensors of fewer than 64 elements are pooled by layer type.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <thread>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/base/random.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/framework/sample_batch_test.h"
#include "mlbench/framework/tensors/flat.h"
#include "mlbench/framework/torch/torch_framework.h"
#include "mlbench/models/model.h"
#include "mlbench/models/smooth_test.h"
#include "mlbench/optim/factory.h"
#include "mlbench/spec/task.h"
#include "tests/golden/oracle.h"

namespace mlbench {
namespace {

using golden::read_values;
using golden::Values;
using golden::write_values;

constexpr double kEps = std::numeric_limits<float>::epsilon();
constexpr int64_t kSamples = 20;
constexpr uint64_t kSeed = 42;
constexpr int64_t kStep = 3;
// A ReLU or maximum whose input lies within rounding of a kink may fall on the other side: not an error, but it moves
// the gradient by one sample's share in one unit. The smooth variant has none and is held to rounding alone.
constexpr double kRealMultiple = 1000;
constexpr double kSmoothMultiple = 8;
// Batch normalisation divides by deviations: rounding grows from layer to layer, for PyTorch alike.
constexpr double kResNetMultiple = 64;
// Many layers of kinks; a flip that feeds a batch norm moves all of its channel.
constexpr double kDeepRealMultiple = 40000;
// A few samples of the larger networks, as float64 takes its time. A flip weighs more in a smaller batch.
constexpr int64_t kFewSamples = 5;
constexpr double kFewRealMultiple = kDeepRealMultiple * kSamples / kFewSamples;
// VGG-16 has no batch norm, but many layers: PyTorch's own error is 15 eps x norm.
constexpr double kVgg16Multiple = 64;
// Up to 16 layers without shortcuts: what softplus yields is all positive, so that each batch norm cancels digits.
constexpr double kVggMultiple = 512;
constexpr double kVggLossMultiple = 32;

struct Batch {
  std::vector<int64_t> sample_shape;
  std::vector<float> features;
  std::vector<int64_t> labels;

  int64_t samples() const { return std::ssize(labels); }
  BatchView view(int64_t first, int64_t count) const {
    return framework::samples_view(features.data() + first * volume_of(sample_shape), labels.data() + first,
                                   sample_shape, count);
  }
};

Batch make_batch(const std::vector<int64_t>& sample_shape, int64_t samples = kSamples) {
  Batch batch;
  batch.sample_shape = sample_shape;
  RandomSequence random(7);
  const int64_t volume = volume_of(sample_shape);
  for (int64_t i = 0; i < samples * volume; ++i) batch.features.push_back(static_cast<float>(random.uniform()));
  for (int64_t i = 0; i < samples; ++i) batch.labels.push_back(static_cast<int64_t>(random.below(10)));
  return batch;
}

// Without padding, tensors back to back: those that are trainable, or the others.
Values logical(const FlatLayout& layout, const at::Tensor& flat, bool trainable = true) {
  Values values;
  for (const FlatRange& range : layout.ranges) {
    if (range.trainable != trainable) continue;
    const float* first = flat.const_data_ptr<float>() + range.offset;
    values.insert(values.end(), first, first + range.count);
  }
  return values;
}

struct Case {
  spec::TaskSpec task;
  models::ModelDescription model;
  bool dropout = false;
  bool frozen = false;  // BatchNorm normalises by its running statistics
  std::string precision = "float32";
  double loss_multiple = 8;  // of eps x loss, by which rounding may change the loss
  Json definition;           // the model as imagenet_models.py defines it; null: PyTorch follows the description
  Batch batch;
};

Case make_case(const std::string& model, bool dropout) {
  Case result;
  result.task = spec::find_task("fashion-mnist", "", "", {}).task;
  result.task.model.name = model;
  result.model = models::describe_model(result.task);
  result.dropout = dropout;
  result.batch = make_batch(result.task.data.sample_shape);
  return result;
}

Case make_cifar_case(const std::string& model, const Json& options, int64_t samples = kSamples) {
  Case result;
  result.task = spec::find_task("1a", "2021", "", {}).task;
  result.task.model = {model, options};
  result.model = models::describe_model(result.task);
  result.batch = make_batch(result.task.data.sample_shape, samples);
  return result;
}

Case make_resnet_case(const std::string& version, int64_t depth, bool frozen) {
  Case result = make_cifar_case("resnet-cifar", {{"version", version}, {"depth", depth}});
  result.frozen = frozen;
  return result;
}

// A network for images of 224 x 224 pixels, on smaller ones.
Case make_imagenet_case(const std::string& model, const Json& options, int64_t size) {
  Case result;
  result.task = spec::find_task("1a", "2021", "", {}).task;
  result.task.data.sample_shape = {3, size, size};
  result.task.model = {model, options};
  result.model = models::describe_model(result.task);
  result.batch = make_batch(result.task.data.sample_shape, kFewSamples);
  result.definition = {{"model", model}, {"options", options}, {"smooth", false}};
  return result;
}

Case smooth(Case test) {
  test.model = models::smooth(std::move(test.model));
  if (!test.definition.is_null()) test.definition["smooth"] = true;
  return test;
}

std::unique_ptr<framework::Framework> make_framework(const Case& test, int threads) {
  framework::FrameworkOptions options;
  options.model = test.model;
  options.threads = threads;
  options.seed = kSeed;
  options.dropout = test.dropout;
  options.frozen_batch_norm = test.frozen;
  options.precision = test.precision;
  auto framework = framework::torch_framework::make(options);
  framework->initialise();
  return framework;
}

struct Outcome {
  double loss = 0;
  Values gradients, parameters;
};

struct Golden {
  Outcome exact;  // float64
  Outcome peer;   // of the case's precision: float32, or bf16 by autocast
};

// The masks of all dropout layers, each of which follows a linear layer, by their definition in models/model.h.
std::vector<float> masks_of(const Case& test) {
  std::vector<float> masks;
  uint64_t features = 0;
  for (size_t layer = 0; layer < test.model.layers.size(); ++layer) {
    const models::LayerSpec& spec = test.model.layers[layer];
    if (spec.kind == "linear") features = spec.options["out"].get<uint64_t>();
    if (spec.kind != "dropout") continue;
    const double p = spec.options["p"].get<double>();
    const uint64_t key = models::dropout_key(kSeed, 0, kStep, layer);
    for (uint64_t i = 0; i < static_cast<uint64_t>(test.batch.samples()) * features; ++i) {
      masks.push_back(philox(key, i / 4, 0)[i % 4] >= p * 0x1.0p32 ? static_cast<float>(1 / (1 - p)) : 0.0F);
    }
  }
  return masks;
}

Json to_json(const std::vector<models::LayerSpec>& layers) {
  Json json = Json::array();
  for (const models::LayerSpec& layer : layers) {
    json.push_back({{"kind", layer.kind},
                    {"name", layer.name},
                    {"options", layer.options},
                    {"body", to_json(layer.body)},
                    {"shortcut", to_json(layer.shortcut)}});
  }
  return json;
}

Golden ask_pytorch(const Case& test) {
  const TemporaryFolder folder;
  Json json = {{"samples", test.batch.samples()},
               {"sample_shape", test.task.data.sample_shape},
               {"dropout", test.dropout},
               {"lr", test.task.optimizer.lr},
               {"sgd",
                {{"momentum", test.task.optimizer.options.value("momentum", 0.0)},
                 {"nesterov", test.task.optimizer.options.value("nesterov", false)},
                 {"weight_decay", test.task.optimizer.options.value("weight_decay", 0.0)}}},
               {"frozen", test.frozen},
               {"precisions", {"float64", test.precision}},
               {"layers", to_json(test.model.layers)},
               {"definition", test.definition},
               {"parameters", Json::array()}};
  std::vector<float> start;
  for (size_t i = 0; i < test.model.parameters.size(); ++i) {
    const models::ParameterSpec& parameter = test.model.parameters[i];
    json["parameters"].push_back(
        {{"name", parameter.name}, {"shape", parameter.shape}, {"trainable", parameter.trainable}});
    const auto count = static_cast<size_t>(volume_of(parameter.shape));
    start.resize(start.size() + count);
    models::initialise(parameter, i, kSeed, std::span(start).last(count));
  }
  write_json_file(folder / "case.json", json);
  write_values(folder / "start.bin", start);
  write_values(folder / "features.bin", test.batch.features);
  write_values(folder / "labels.bin", test.batch.labels);
  if (test.dropout) write_values(folder / "masks.bin", masks_of(test));

  golden::run_oracle("oracle.py", folder);

  const Json result = read_json_file(folder / "result.json");
  const auto outcome = [&](const std::string& precision) {
    return Outcome{result["loss"][precision].get<double>(), read_values(folder / ("gradients_" + precision + ".bin")),
                   read_values(folder / ("parameters_" + precision + ".bin"))};
  };
  return {outcome("float64"), outcome(test.precision)};
}

Outcome our_step(const Case& test) {
  const auto framework = make_framework(test, 2);
  const auto comm = std::move(comm::make_in_process_group(1, std::chrono::seconds(20)).front());
  const auto optimizer = optim::make_optimizer(test.task.optimizer, framework->layout(), *comm);
  optim::FlatTensors tensors = optim::flat_tensors(framework->parameters(), framework->gradients());
  Outcome outcome;
  optimizer->begin({kStep}, tensors);
  framework->begin_step(kStep);
  framework->forward(test.batch.view(0, test.batch.samples()), framework::Mode::kTrain);
  outcome.loss = framework->loss();
  framework->backward({});
  optimizer->finish();
  outcome.gradients = logical(framework->layout(), tensors.gradients);
  optimizer->step(tensors, test.task.optimizer.lr);
  outcome.parameters = logical(framework->layout(), tensors.parameters);
  const Values buffers = logical(framework->layout(), framework::flat_tensor(framework->buffers()), false);
  outcome.parameters.insert(outcome.parameters.end(), buffers.begin(), buffers.end());
  return outcome;
}

// The summed gradient of `ranks` ranks that share the batch as evenly as possible, each weighted by its samples.
Values sharded_gradient(const Case& test, int ranks) {
  auto group = comm::make_in_process_group(ranks, std::chrono::seconds(60));
  Values result;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      const auto framework = make_framework(test, 1);
      const auto optimizer =
          optim::make_optimizer(test.task.optimizer, framework->layout(), *group[static_cast<size_t>(rank)]);
      optim::FlatTensors tensors = optim::flat_tensors(framework->parameters(), framework->gradients());
      const int64_t count = kSamples / ranks + (rank < kSamples % ranks ? 1 : 0);
      const int64_t first = kSamples / ranks * rank + std::min<int64_t>(rank, kSamples % ranks);
      optimizer->begin({kStep}, tensors);
      framework->begin_step(kStep);
      framework->forward(test.batch.view(first, count), framework::Mode::kTrain);
      framework->backward({.scale = static_cast<double>(count) / kSamples});
      optimizer->finish();
      if (rank == 0) result = logical(framework->layout(), tensors.gradients);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return result;
}

struct Norms {
  double ours = 0, peer = 0, exact = 0;  // sums of squares
};

void expect_close(const Case& test, const char* what, const Values& ours, const Values& peer, const Values& exact,
                  double multiple) {
  ASSERT_EQ(ours.size(), exact.size());
  ASSERT_EQ(peer.size(), exact.size());
  std::map<std::string, Norms> groups;
  size_t offset = 0;
  for (const models::ParameterSpec& parameter : test.model.parameters) {
    if (offset == ours.size()) break;  // gradients: buffers have none, and come last
    const auto count = static_cast<size_t>(volume_of(parameter.shape));
    const std::string type = !parameter.trainable                               ? "running statistics"
                             : parameter.name.find("bn") != std::string::npos   ? "batch_norm2d"
                             : parameter.name.find("conv") != std::string::npos ? "conv2d"
                                                                                : "linear";
    Norms& norms = groups[count < 64 ? type + ", tensors under 64 elements" : parameter.name];
    for (const size_t end = offset + count; offset < end; ++offset) {
      norms.ours += std::pow(ours[offset] - exact[offset], 2);
      norms.peer += std::pow(peer[offset] - exact[offset], 2);
      norms.exact += std::pow(exact[offset], 2);
    }
  }
  for (const auto& [name, norms] : groups) {
    const double error = std::sqrt(norms.ours), peer_error = std::sqrt(norms.peer), norm = std::sqrt(norms.exact);
    EXPECT_LE(error, std::max(2 * peer_error, multiple * kEps * norm))
        << what << " of " << name << ": PyTorch's own error is " << peer_error << ", norm " << norm;
    if (std::getenv("MLBENCH_TEST_VERBOSE") != nullptr) {
      printf("%-10s %-40s ours %.2e peer %.2e (eps x norm %.2e)\n", what, name.c_str(), error, peer_error, kEps * norm);
    }
  }
}

class GoldenTest : public golden::OracleTest {
 protected:
  void compare(const Case& test, double multiple) {
    const Golden golden = ask_pytorch(test);
    const Outcome ours = our_step(test);
    // One number, which the peer may hit by chance: the mean of as many losses as samples, each rounded by itself.
    const double rounding =
        test.precision == "bf16" ? std::ldexp(1, -9) / std::sqrt(kSamples) : test.loss_multiple * kEps;
    EXPECT_LE(std::abs(ours.loss - golden.exact.loss),
              std::max(2 * std::abs(golden.peer.loss - golden.exact.loss), rounding * golden.exact.loss));
    expect_close(test, "gradient", ours.gradients, golden.peer.gradients, golden.exact.gradients, multiple);
    expect_close(test, "parameters", ours.parameters, golden.peer.parameters, golden.exact.parameters, multiple);
  }
};

TEST_F(GoldenTest, StepWithoutDropoutEqualsPyTorchs) { compare(make_case("mnist-cnn", false), kRealMultiple); }

TEST_F(GoldenTest, StepWithTheStoredMaskEqualsPyTorchs) { compare(make_case("mnist-cnn", true), kRealMultiple); }

TEST_F(GoldenTest, StepOfTheSmoothVariantEqualsPyTorchs) {
  compare(smooth(make_case("mnist-cnn", false)), kSmoothMultiple);
  compare(smooth(make_case("mnist-cnn", true)), kSmoothMultiple);
}

TEST_F(GoldenTest, StepOfEachResNetEqualsPyTorchs) {
  for (const char* version : {"v1", "v2", "v2-mlbench"}) {
    SCOPED_TRACE(version);
    compare(make_resnet_case(version, 8, false), kDeepRealMultiple);
    compare(smooth(make_resnet_case(version, 8, false)), kResNetMultiple);
  }
  compare(smooth(make_resnet_case("v2-tensorflow", 8, false)), kResNetMultiple);
}

TEST_F(GoldenTest, StepOfTheLargerNetworksForCifarEqualsPyTorchs) {
  const Case resnet = make_cifar_case("resnet18-cifar", {{"version", "v1"}}, kFewSamples);
  compare(resnet, kFewRealMultiple);
  compare(smooth(resnet), kResNetMultiple);
  compare(smooth(make_cifar_case("resnet18-cifar", {{"version", "v2-mlbench"}}, kFewSamples)), kResNetMultiple);

  Case vgg = make_cifar_case("vgg-cifar", {{"depth", 11}}, kFewSamples);
  vgg.loss_multiple = kVggLossMultiple;
  compare(vgg, kFewRealMultiple);
  vgg = smooth(make_cifar_case("vgg-cifar", {{"depth", 19}}, kFewSamples));
  vgg.loss_multiple = kVggLossMultiple;
  compare(vgg, kVggMultiple);
}

// These also compare the descriptions with definitions in PyTorch's own terms.
TEST_F(GoldenTest, StepOfResNet50EqualsPyTorchs) {
  for (const char* version : {"v1.5", "v1"}) {
    SCOPED_TRACE(version);
    Case resnet = make_imagenet_case("resnet50", {{"version", version}}, 64);
    resnet.loss_multiple = kVggLossMultiple;  // batch norms, fifty layers deep
    compare(smooth(resnet), kVggMultiple);
    if (version == std::string("v1.5")) compare(resnet, kFewRealMultiple);
  }
}

TEST_F(GoldenTest, StepOfVgg16EqualsPyTorchs) {
  Case vgg = make_imagenet_case("vgg16", {{"hidden", 96}}, 32);
  compare(vgg, kFewRealMultiple);
  compare(smooth(vgg), kVgg16Multiple);
  vgg.dropout = true;
  compare(smooth(vgg), kVgg16Multiple);
}

TEST_F(GoldenTest, ManyWorkersGiveTheGradientOfOneOnResNet20WithFrozenStatistics) {
  const Case real = make_resnet_case("v1", 20, true);
  for (const auto& [test, multiple] : {std::pair{real, kRealMultiple}, {smooth(real), kResNetMultiple}}) {
    const Golden golden = ask_pytorch(test);
    const Values one = our_step(test).gradients;
    SCOPED_TRACE(multiple);
    expect_close(test, "gradient", sharded_gradient(test, 2), one, golden.exact.gradients, multiple);
  }
}

// bfloat16 in convolutions and linear layers, float32 in everything else: no worse than PyTorch's autocast.
TEST_F(GoldenTest, StepInBf16IsAsExactAsPyTorchsAutocast) {
  const Case real = make_case("mnist-cnn", true);
  for (Case test : {real, smooth(real)}) {
    test.precision = "bf16";
    SCOPED_TRACE(test.model.layers[1].kind);
    compare(test, 0);
  }
}

TEST_F(GoldenTest, ManyWorkersGiveTheGradientOfOneWithTheWholeBatch) {
  const Case real = make_case("mnist-cnn", false);
  for (const auto& [test, multiple] : {std::pair{real, kRealMultiple}, {smooth(real), kSmoothMultiple}}) {
    const Golden golden = ask_pytorch(test);
    const Values one = our_step(test).gradients;
    for (const int ranks : {2, 3}) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, " + test.model.layers[1].kind);
      expect_close(test, "gradient", sharded_gradient(test, ranks), one, golden.exact.gradients, multiple);
    }
  }
}

}  // namespace
}  // namespace mlbench
