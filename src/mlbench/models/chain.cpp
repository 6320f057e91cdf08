#include "mlbench/models/chain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/models/layer_kinds.h"

namespace mlbench::models {

namespace {

Initialiser uniform_for(int64_t fan_in) { return uniform(1.0 / std::sqrt(static_cast<double>(fan_in))); }
Initialiser normal_for(int64_t fan_out) { return normal(std::sqrt(2.0 / static_cast<double>(fan_out))); }

}  // namespace

Chain::Chain(std::vector<int64_t> input_shape) : shape_(std::move(input_shape)) { model_.input_shape = shape_; }

Chain& Chain::add(LayerSpec layer, const Start& start) {
  const LayerKind& kind = find_layer_kind(layer.kind);
  MLBENCH_CHECK(kind.in_chains, layer.kind);
  for (const ParameterShape& parameter : kind.parameters(layer)) {
    model_.parameters.push_back({parameter_name(layer, parameter.role), parameter.shape, start.at(parameter.role),
                                 parameter.trainable, parameter.use});
  }
  shape_ = kind.output(layer, {shape_});
  model_.layers.push_back(std::move(layer));
  return *this;
}

void Chain::require_multiples(const std::string& layer, int64_t stride) const {
  if (shape_[1] % stride == 0 && shape_[2] % stride == 0) return;
  throw UserError(
      fmt::format("layer {} of the model takes every pixel number {}, but samples of shape {{{}}} are {} x {} there: "
                  "choose data whose height and width divide evenly",
                  layer, stride, fmt::join(model_.input_shape, ", "), shape_[1], shape_[2]));
}

Chain& Chain::conv2d(const std::string& name, int64_t out_channels, int64_t kernel, int64_t stride,
                     const Start& start) {
  MLBENCH_CHECK(shape_.size() == 3 && kernel % 2 == 1, name);
  require_multiples(name, stride);
  return add({"conv2d",
              name,
              {{"in", shape_[0]},
               {"out", out_channels},
               {"kernel", kernel},
               {"stride", stride},
               {"padding", kernel / 2},
               {"bias", start.contains("bias")}},
              {},
              {}},
             start);
}

Chain& Chain::conv2d_same(const std::string& name, int64_t out_channels, int64_t kernel) {
  const Initialiser start = uniform_for(shape_[0] * kernel * kernel);
  return conv2d(name, out_channels, kernel, 1, {{"weight", start}, {"bias", start}});
}

Chain& Chain::conv2d_same_normal(const std::string& name, int64_t out_channels, int64_t kernel) {
  return conv2d(name, out_channels, kernel, 1,
                {{"weight", normal_for(out_channels * kernel * kernel)}, {"bias", zeros()}});
}

Chain& Chain::conv2d_normal(const std::string& name, int64_t out_channels, int64_t kernel, int64_t stride) {
  return conv2d(name, out_channels, kernel, stride, {{"weight", normal_for(out_channels * kernel * kernel)}});
}

Chain& Chain::conv2d_fan_in(const std::string& name, int64_t out_channels, int64_t kernel, int64_t stride) {
  const auto fan_in = static_cast<double>(shape_[0] * kernel * kernel);
  return conv2d(name, out_channels, kernel, stride, {{"weight", normal(std::sqrt(1 / fan_in))}});
}

Chain& Chain::conv2d_uniform(const std::string& name, int64_t out_channels, int64_t kernel, int64_t stride) {
  return conv2d(name, out_channels, kernel, stride, {{"weight", uniform_for(shape_[0] * kernel * kernel)}});
}

Chain& Chain::batch_norm2d(const std::string& name, double momentum) {
  MLBENCH_CHECK(shape_.size() == 3, name);
  return add({"batch_norm2d", name, {{"channels", shape_[0]}, {"eps", 1e-5}, {"momentum", momentum}}, {}, {}},
             {{"weight", ones()}, {"bias", zeros()}, {"running_mean", zeros()}, {"running_var", ones()}});
}

Chain& Chain::residual(const Part& body, const Part& shortcut) {
  LayerSpec layer{"residual", "", Json::object(), {}, {}};
  const auto write = [&](const Part& part, std::vector<LayerSpec>& layers) {
    Chain chain(shape_);
    chain.model_.input_shape = model_.input_shape;
    part(chain);
    layers = std::move(chain.model_.layers);
    for (ParameterSpec& parameter : chain.model_.parameters) model_.parameters.push_back(std::move(parameter));
  };
  write(body, layer.body);
  if (shortcut) write(shortcut, layer.shortcut);
  return add(std::move(layer));
}

Chain& Chain::global_avg_pool2d() { return add({"global_avg_pool2d", "", Json::object(), {}, {}}); }

Chain& Chain::global_avg_max_pool2d() { return add({"global_avg_max_pool2d", "", Json::object(), {}, {}}); }

Chain& Chain::linear(const std::string& name, int64_t outputs) {
  MLBENCH_CHECK(shape_.size() == 1, name);
  const Initialiser start = uniform_for(shape_[0]);
  return add({"linear", name, {{"in", shape_[0]}, {"out", outputs}}, {}, {}}, {{"weight", start}, {"bias", start}});
}

Chain& Chain::linear_from(const std::string& name, int64_t outputs, const Initialiser& weight) {
  MLBENCH_CHECK(shape_.size() == 1, name);
  return add({"linear", name, {{"in", shape_[0]}, {"out", outputs}}, {}, {}}, {{"weight", weight}, {"bias", zeros()}});
}

Chain& Chain::linear_normal(const std::string& name, int64_t outputs, double deviation) {
  return linear_from(name, outputs, normal(deviation));
}

Chain& Chain::linear_glorot(const std::string& name, int64_t outputs) {
  return linear_from(name, outputs, uniform(std::sqrt(6.0 / static_cast<double>(shape_[0] + outputs))));
}

Chain& Chain::linear_without_bias(const std::string& name, int64_t outputs) {
  MLBENCH_CHECK(shape_.size() == 1, name);
  return add({"linear", name, {{"in", shape_[0]}, {"out", outputs}, {"bias", false}}, {}, {}},
             {{"weight", uniform_for(shape_[0])}});
}

// A kind that does not exist is left to the framework to refuse.
Chain& Chain::activation(const std::string& kind) {
  model_.layers.push_back({kind, "", Json::object(), {}, {}});
  return *this;
}

Chain& Chain::pool2d(const std::string& kind, const PoolWindow& window) {
  MLBENCH_CHECK(shape_.size() == 3, kind);
  require_multiples(kind, window.stride);
  return add({kind, "", {{"kernel", window.kernel}, {"stride", window.stride}, {"padding", window.padding}}, {}, {}});
}

Chain& Chain::adaptive_avg_pool2d(int64_t size) { return add({"adaptive_avg_pool2d", "", {{"size", size}}, {}, {}}); }

Chain& Chain::flatten() {
  MLBENCH_CHECK(shape_.size() > 1, "flatten");
  return add({"flatten", "", Json::object(), {}, {}});
}

Chain& Chain::dropout(double p) {
  if (!(p >= 0 && p < 1)) throw UserError(fmt::format("dropout is {}; expected 0 <= dropout < 1", p));
  return add({"dropout", "", {{"p", p}}, {}, {}});
}

ModelDescription Chain::finish() {
  MLBENCH_CHECK(shape_.size() == 1, "a model ends in a vector of logits");
  model_.outputs = shape_[0];
  std::stable_partition(model_.parameters.begin(), model_.parameters.end(),
                        [](const ParameterSpec& parameter) { return parameter.trainable; });
  return std::move(model_);
}

Chain chain_of_images(const spec::TaskSpec& task) {
  if (task.data.sample_shape.size() != 3) {
    throw UserError(fmt::format("model '{}' takes images {{channels, height, width}}; data '{}' has shape {{{}}}",
                                task.model.name, task.data.name, fmt::join(task.data.sample_shape, ", ")));
  }
  return Chain(task.data.sample_shape);
}

}  // namespace mlbench::models
