#include "mlbench/models/model.h"

#include <fmt/format.h>

#include <algorithm>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/random.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/shape.h"
#include "mlbench/models/awd_lstm.h"
#include "mlbench/models/gnmt.h"
#include "mlbench/models/linear_regression.h"
#include "mlbench/models/logistic_regression.h"
#include "mlbench/models/mnist_cnn.h"
#include "mlbench/models/resnet18_cifar.h"
#include "mlbench/models/resnet50.h"
#include "mlbench/models/resnet_cifar.h"
#include "mlbench/models/transformer.h"
#include "mlbench/models/vgg16.h"
#include "mlbench/models/vgg_cifar.h"
#include "mlbench/spec/loss.h"

namespace mlbench::models {

namespace {

constexpr int64_t kAlignmentElements = 64 / sizeof(float);

struct Row {
  const char* name;
  ModelDescription (*describe)(const spec::TaskSpec& task);
};
constexpr Row kModels[] = {
    {"mnist-cnn", describe_mnist_cnn},
    {"resnet-cifar", describe_resnet_cifar},
    {"resnet18-cifar", describe_resnet18_cifar},
    {"vgg-cifar", describe_vgg_cifar},
    {"resnet50", describe_resnet50},
    {"vgg16", describe_vgg16},
    {"logistic_regression", describe_logistic_regression},
    {"linear_regression", describe_linear_regression},
    {"awd-lstm", describe_awd_lstm},
    {"gnmt", describe_gnmt},
    {"transformer", describe_transformer},
};

// Throws UserError where the loss is not computed from such outputs.
void check_loss(const ModelDescription& model) {
  const spec::LossKind loss = spec::loss_kind(model.loss.kind);
  if (model.is_graph() != loss.over_tokens) {
    throw UserError(fmt::format("model '{}' cannot have the loss '{}'; expected {}", model.name, loss.name,
                                model.is_graph() ? "token_cross_entropy, over tokens" : "a loss over samples"));
  }
  const bool of_classes = loss.classifies && !loss.one_output;
  if ((loss.one_output && model.outputs != 1) || (of_classes && model.outputs == 1)) {
    throw UserError(fmt::format("model '{}' has {} output{} per sample, and the loss '{}' takes {}", model.name,
                                model.outputs, model.outputs == 1 ? "" : "s", loss.name,
                                loss.one_output ? "one" : "one for each class"));
  }
}

}  // namespace

int64_t ModelDescription::parameter_count() const {
  int64_t count = 0;
  for (const ParameterSpec& parameter : parameters) count += parameter.trainable ? volume_of(parameter.shape) : 0;
  return count;
}

std::vector<std::string> model_names() { return names_of(kModels); }

ModelDescription describe_model(const spec::TaskSpec& task) {
  ModelDescription model = row_named(kModels, "model", task.model.name).describe(task);
  model.name = task.model.name;
  model.loss.kind = task.loss;
  model.loss.label_smoothing = task.label_smoothing;
  check_loss(model);
  return model;
}

std::string parameter_name(const LayerSpec& layer, const std::string& role) {
  const auto found = layer.shared.find(role);
  return found != layer.shared.end() ? found->second : layer.name + "." + role;
}

uint64_t dropout_key(uint64_t seed, int rank, int64_t step, size_t layer, int64_t micro_batch) {
  const auto place = static_cast<uint64_t>(rank), number = static_cast<uint64_t>(step);
  if (micro_batch == 0) return derive_key(seed, {kDropoutStream, place, number, layer});
  return derive_key(seed, {kDropoutStream, place, number, layer, static_cast<uint64_t>(micro_batch)});
}

namespace {

void fill(const Initialiser& initialiser, RandomSequence random, std::span<float> values) {
  const double scale = initialiser.scale;
  switch (initialiser.kind) {
    case Initialiser::Kind::kZeros:
      std::ranges::fill(values, 0.0F);
      return;
    case Initialiser::Kind::kOnes:
      std::ranges::fill(values, 1.0F);
      return;
    case Initialiser::Kind::kConstant:
      std::ranges::fill(values, static_cast<float>(scale));
      return;
    case Initialiser::Kind::kUniform:
      for (float& value : values) value = static_cast<float>(scale * (2.0 * random.uniform() - 1.0));
      return;
    case Initialiser::Kind::kNormal:
      for (float& value : values) value = static_cast<float>(scale * random.normal());
      return;
  }
}

}  // namespace

void initialise(const ParameterSpec& parameter, size_t index, uint64_t seed, std::span<float> values) {
  MLBENCH_CHECK(static_cast<int64_t>(values.size()) == volume_of(parameter.shape), parameter.name);
  const Initialiser& initialiser = parameter.initialiser;
  fill(initialiser, RandomSequence(derive_key(seed, {kInitStream, index})), values);
  if (initialiser.zero_rows == 0) return;
  const int64_t zeros = initialiser.zero_rows * (volume_of(parameter.shape) / parameter.shape.front());
  std::ranges::fill(values.first(static_cast<size_t>(zeros)), 0.0F);
}

FlatLayout lay_out(const ModelDescription& model) {
  FlatLayout layout;
  for (const ParameterSpec& parameter : model.parameters) {
    int64_t& end = parameter.trainable ? layout.parameter_elements : layout.buffer_elements;
    const int64_t count = volume_of(parameter.shape);
    layout.ranges.push_back({parameter.name, parameter.shape, end, count, parameter.trainable, parameter.use});
    end += (count + kAlignmentElements - 1) / kAlignmentElements * kAlignmentElements;
  }
  return layout;
}

void initialise(const ModelDescription& model, const FlatLayout& layout, uint64_t seed, std::span<float> parameters,
                std::span<float> buffers) {
  for (size_t i = 0; i < layout.ranges.size(); ++i) {
    const FlatRange& range = layout.ranges[i];
    const std::span<float> flat = range.trainable ? parameters : buffers;
    initialise(model.parameters[i], i, seed,
               flat.subspan(static_cast<size_t>(range.offset), static_cast<size_t>(range.count)));
  }
}

std::string weights_sha256(const FlatLayout& layout, std::span<const float> parameters,
                           std::span<const float> buffers) {
  MLBENCH_CHECK(static_cast<int64_t>(parameters.size()) == layout.parameter_elements, "size of the parameter buffer");
  MLBENCH_CHECK(static_cast<int64_t>(buffers.size()) == layout.buffer_elements, "size of the buffer of buffers");
  Sha256 hash;
  for (const FlatRange& range : layout.ranges) {
    const std::span<const float> flat = range.trainable ? parameters : buffers;
    hash.update(std::as_bytes(flat.subspan(static_cast<size_t>(range.offset), static_cast<size_t>(range.count))));
  }
  return hash.hex();
}

}  // namespace mlbench::models
