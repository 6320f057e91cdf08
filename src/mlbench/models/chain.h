#pragma once

// Writes a chain of layers down: follows the shape from layer to layer and lists each layer's parameters by
// layer_kinds.h, with PyTorch's default initialisers (kaiming_uniform with a = sqrt(5): weights and biases uniform
// within +-1/sqrt(fan_in)) unless a layer says otherwise.

#include <functional>
#include <map>
#include <string>

#include "mlbench/models/model.h"

namespace mlbench::models {

class Chain {
 public:
  // {channels, height, width} or {features}
  explicit Chain(std::vector<int64_t> input_shape);

  // Stride 1, zero padding that keeps height and width; `kernel` odd.
  Chain& conv2d_same(const std::string& name, int64_t out_channels, int64_t kernel);
  // Without bias, padded by kernel / 2 (`kernel` odd), weights normal with deviation sqrt(2 / fan_out), fan_out =
  // out_channels * kernel^2 (He et al. 2015). UserError when height or width is no multiple of `stride`.
  Chain& conv2d_normal(const std::string& name, int64_t out_channels, int64_t kernel, int64_t stride);
  Chain& batch_norm2d(const std::string& name);  // weight 1, bias 0, momentum 0.1, eps 1e-5
  // Both chains begin with the shape now and must end with the same one; no `shortcut`: the identity.
  using Part = std::function<void(Chain&)>;
  Chain& residual(const Part& body, const Part& shortcut = {});
  Chain& global_avg_pool2d();
  Chain& linear(const std::string& name, int64_t outputs);
  Chain& linear_without_bias(const std::string& name, int64_t outputs);
  Chain& activation(const std::string& kind);  // "relu", "softplus"
  // "max_pool2d", "avg_pool2d". UserError when height or width is no multiple of `kernel`.
  Chain& pool2d(const std::string& kind, int64_t kernel);
  Chain& flatten();
  Chain& dropout(double p);  // UserError unless 0 <= p < 1

  // The shape now is {outputs}.
  ModelDescription finish();

 private:
  // `initialisers`: of each parameter, by role.
  Chain& add(LayerSpec layer, const std::map<std::string, Initialiser>& initialisers = {});

  ModelDescription model_;
  std::vector<int64_t> shape_;
};

}  // namespace mlbench::models
