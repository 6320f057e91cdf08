#pragma once

// Writes a chain of layers: it follows the shape from layer to layer and lists each layer's parameters by
// layer_kinds.h. Initialisers are PyTorch's defaults (kaiming_uniform with a = sqrt(5): weights and biases uniform
// within +-1/sqrt(fan_in)) unless a layer says otherwise.

#include <functional>
#include <map>
#include <string>

#include "mlbench/models/model.h"

namespace mlbench::models {

class Chain {
 public:
  // `input_shape` is {channels, height, width} or {features}.
  explicit Chain(std::vector<int64_t> input_shape);

  // The stride is 1, and zero padding keeps height and width. `kernel` must be odd.
  Chain& conv2d_same(const std::string& name, int64_t out_channels, int64_t kernel);
  // Adds the layer of conv2d_same(), but weights start as those of conv2d_normal() and biases as zeros.
  Chain& conv2d_same_normal(const std::string& name, int64_t out_channels, int64_t kernel);
  // A convolution without bias, padded by kernel / 2 (`kernel` must be odd). Weights are normal with deviation sqrt(2 /
  // fan_out), where fan_out = out_channels * kernel^2 (He et al. 2015). Throws UserError when height or width is no
  // multiple of `stride`.
  Chain& conv2d_normal(const std::string& name, int64_t out_channels, int64_t kernel, int64_t stride);
  // Adds the layer of conv2d_normal(), but the deviation is sqrt(1 / fan_in), where fan_in = in_channels * kernel^2.
  Chain& conv2d_fan_in(const std::string& name, int64_t out_channels, int64_t kernel, int64_t stride);
  // Adds the layer of conv2d_normal(), but weights start as PyTorch's.
  Chain& conv2d_uniform(const std::string& name, int64_t out_channels, int64_t kernel, int64_t stride);
  Chain& batch_norm2d(const std::string& name, double momentum = 0.1);  // weight 1, bias 0, eps 1e-5
  // Both chains begin with the current shape and must end with the same shape. Without `shortcut` it is the identity.
  using Part = std::function<void(Chain&)>;
  Chain& residual(const Part& body, const Part& shortcut = {});
  Chain& global_avg_pool2d();
  Chain& global_avg_max_pool2d();
  Chain& linear(const std::string& name, int64_t outputs);
  // Adds the layer of linear(), but weights are normal with this deviation and biases start as zeros.
  Chain& linear_normal(const std::string& name, int64_t outputs, double deviation);
  // Adds the layer of linear(), but weights are uniform within +-sqrt(6 / (inputs + outputs)) (Glorot and Bengio 2010).
  Chain& linear_glorot(const std::string& name, int64_t outputs);
  Chain& linear_without_bias(const std::string& name, int64_t outputs);
  Chain& activation(const std::string& kind);  // `kind`: "relu" or "softplus"
  // `kind` is "max_pool2d" or "avg_pool2d". Throws UserError when height or width is no multiple of the stride. A
  // kernel alone is its own stride, without padding.
  struct PoolWindow {
    int64_t kernel = 2, stride = 2, padding = 0;
  };
  Chain& pool2d(const std::string& kind, const PoolWindow& window);
  Chain& pool2d(const std::string& kind, int64_t kernel) { return pool2d(kind, PoolWindow{kernel, kernel, 0}); }
  Chain& adaptive_avg_pool2d(int64_t size);
  Chain& flatten();
  Chain& dropout(double p);  // throws UserError unless 0 <= p < 1

  // Precondition: the current shape is {outputs}.
  ModelDescription finish();

 private:
  using Start = std::map<std::string, Initialiser>;  // of each parameter, by role
  // A dense layer with a bias of zeros.
  Chain& linear_from(const std::string& name, int64_t outputs, const Initialiser& weight);
  // A convolution that is padded by kernel / 2. It has a bias if `start` has one.
  Chain& conv2d(const std::string& name, int64_t out_channels, int64_t kernel, int64_t stride, const Start& start);
  // Throws UserError when height or width is no multiple of `stride`.
  void require_multiples(const std::string& layer, int64_t stride) const;
  Chain& add(LayerSpec layer, const Start& start = {});

  ModelDescription model_;
  std::vector<int64_t> shape_;
};

// An empty chain for the samples of task.data. Throws UserError, naming model and data, unless these are images.
Chain chain_of_images(const spec::TaskSpec& task);

}  // namespace mlbench::models
