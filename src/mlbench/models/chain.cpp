#include "mlbench/models/chain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/shape.h"

namespace mlbench::models {

Chain::Chain(std::vector<int64_t> input_shape) : shape_(std::move(input_shape)) { model_.input_shape = shape_; }

void Chain::add_parameter(const std::string& layer, const char* suffix, std::vector<int64_t> shape, int64_t fan_in) {
  const double bound = 1.0 / std::sqrt(static_cast<double>(fan_in));
  model_.parameters.push_back(
      {layer + suffix, std::move(shape), {.kind = Initialiser::Kind::kUniform, .scale = bound}, true});
}

Chain& Chain::conv2d_same(const std::string& name, int64_t out_channels, int64_t kernel) {
  MLBENCH_CHECK(shape_.size() == 3 && kernel % 2 == 1, name);
  const int64_t in_channels = shape_[0];
  model_.layers.push_back({"conv2d",
                           name,
                           {{"in", in_channels},
                            {"out", out_channels},
                            {"kernel", kernel},
                            {"stride", 1},
                            {"padding", kernel / 2},
                            {"bias", true}},
                           {},
                           {}});
  const int64_t fan_in = in_channels * kernel * kernel;
  add_parameter(name, ".weight", {out_channels, in_channels, kernel, kernel}, fan_in);
  add_parameter(name, ".bias", {out_channels}, fan_in);
  shape_[0] = out_channels;
  return *this;
}

Chain& Chain::conv2d_normal(const std::string& name, int64_t out_channels, int64_t kernel, int64_t stride) {
  MLBENCH_CHECK(shape_.size() == 3 && kernel % 2 == 1, name);
  if (shape_[1] % stride != 0 || shape_[2] % stride != 0) {
    throw UserError(
        fmt::format("layer {} of the model takes every pixel number {}, but samples of shape {{{}}} are {} x {} "
                    "there: choose data whose height and width divide evenly",
                    name, stride, fmt::join(model_.input_shape, ", "), shape_[1], shape_[2]));
  }
  const int64_t in_channels = shape_[0];
  model_.layers.push_back({"conv2d",
                           name,
                           {{"in", in_channels},
                            {"out", out_channels},
                            {"kernel", kernel},
                            {"stride", stride},
                            {"padding", kernel / 2},
                            {"bias", false}},
                           {},
                           {}});
  const double deviation = std::sqrt(2.0 / static_cast<double>(out_channels * kernel * kernel));
  model_.parameters.push_back({name + ".weight",
                               {out_channels, in_channels, kernel, kernel},
                               {.kind = Initialiser::Kind::kNormal, .scale = deviation},
                               true});
  shape_ = {out_channels, shape_[1] / stride, shape_[2] / stride};
  return *this;
}

Chain& Chain::batch_norm2d(const std::string& name) {
  MLBENCH_CHECK(shape_.size() == 3, name);
  model_.layers.push_back({"batch_norm2d", name, {{"channels", shape_[0]}, {"eps", 1e-5}, {"momentum", 0.1}}, {}, {}});
  const auto add = [&](const char* suffix, Initialiser::Kind kind, bool trainable) {
    model_.parameters.push_back({name + suffix, {shape_[0]}, {.kind = kind}, trainable});
  };
  add(".weight", Initialiser::Kind::kOnes, true);
  add(".bias", Initialiser::Kind::kZeros, true);
  add(".running_mean", Initialiser::Kind::kZeros, false);
  add(".running_var", Initialiser::Kind::kOnes, false);
  return *this;
}

Chain& Chain::residual(const Part& body, const Part& shortcut) {
  LayerSpec layer{"residual", "", Json::object(), {}, {}};
  const auto write = [&](const Part& part, std::vector<LayerSpec>& layers) {
    Chain chain(shape_);
    chain.model_.input_shape = model_.input_shape;
    part(chain);
    layers = std::move(chain.model_.layers);
    for (ParameterSpec& parameter : chain.model_.parameters) model_.parameters.push_back(std::move(parameter));
    return chain.shape_;
  };
  const std::vector<int64_t> shape = write(body, layer.body);
  const std::vector<int64_t> other = shortcut ? write(shortcut, layer.shortcut) : shape_;
  MLBENCH_CHECK(shape == other, "body and shortcut end in different shapes");
  model_.layers.push_back(std::move(layer));
  shape_ = shape;
  return *this;
}

Chain& Chain::global_avg_pool2d() {
  MLBENCH_CHECK(shape_.size() == 3, "global_avg_pool2d");
  model_.layers.push_back({"global_avg_pool2d", "", Json::object(), {}, {}});
  shape_ = {shape_[0]};
  return *this;
}

void Chain::add_linear(const std::string& name, int64_t outputs, bool biased) {
  MLBENCH_CHECK(shape_.size() == 1, name);
  const int64_t inputs = shape_[0];
  model_.layers.push_back({"linear", name, {{"in", inputs}, {"out", outputs}}, {}, {}});
  add_parameter(name, ".weight", {outputs, inputs}, inputs);
  if (biased) {
    add_parameter(name, ".bias", {outputs}, inputs);
  } else {
    model_.layers.back().options["bias"] = false;
  }
  shape_[0] = outputs;
}

Chain& Chain::linear(const std::string& name, int64_t outputs) {
  add_linear(name, outputs, true);
  return *this;
}

Chain& Chain::linear_without_bias(const std::string& name, int64_t outputs) {
  add_linear(name, outputs, false);
  return *this;
}

Chain& Chain::activation(const std::string& kind) {
  model_.layers.push_back({kind, "", Json::object(), {}, {}});
  return *this;
}

Chain& Chain::pool2d(const std::string& kind, int64_t kernel) {
  MLBENCH_CHECK(shape_.size() == 3, kind);
  if (shape_[1] % kernel != 0 || shape_[2] % kernel != 0) {
    throw UserError(
        fmt::format("the model halves height and width by pooling, but samples of shape {{{}}} are {} x {} "
                    "there: choose data whose height and width divide evenly",
                    fmt::join(model_.input_shape, ", "), shape_[1], shape_[2]));
  }
  model_.layers.push_back({kind, "", {{"kernel", kernel}}, {}, {}});
  shape_[1] /= kernel;
  shape_[2] /= kernel;
  return *this;
}

Chain& Chain::flatten() {
  MLBENCH_CHECK(shape_.size() > 1, "flatten");
  model_.layers.push_back({"flatten", "", Json::object(), {}, {}});
  shape_ = {volume_of(shape_)};
  return *this;
}

Chain& Chain::dropout(double p) {
  if (!(p >= 0 && p < 1)) throw UserError(fmt::format("dropout is {}; expected 0 <= dropout < 1", p));
  model_.layers.push_back({"dropout", "", {{"p", p}}, {}, {}});
  return *this;
}

ModelDescription Chain::finish() {
  MLBENCH_CHECK(shape_.size() == 1, "a model ends in a vector of logits");
  model_.outputs = shape_[0];
  std::stable_partition(model_.parameters.begin(), model_.parameters.end(),
                        [](const ParameterSpec& parameter) { return parameter.trainable; });
  return std::move(model_);
}

}  // namespace mlbench::models
