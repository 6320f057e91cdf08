#pragma once

// From a model's description to a chain of operations on tensors that autograd differentiates.

#include <ATen/ATen.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/framework/tensors/gradients.h"
#include "mlbench/framework/torch/kernels.h"
#include "mlbench/framework/torch/layer_times.h"
#include "mlbench/models/model.h"

namespace mlbench::framework::torch_framework {

// What an operation may ask about the pass it runs in.
struct Pass {
  bool training = false;
  uint64_t seed = 0;
  int rank = 0;
  int64_t step = 0;
  int64_t micro_batch = 0;  // training passes since the step began, before this one
  RowSelection rows;        // where the first operation of a network that `reads_rows` finds its samples
};

using Operation = std::function<at::Tensor(const at::Tensor& input, const Pass& pass)>;

struct BuildContext {
  const models::ModelDescription& model;
  std::function<Parameter(const std::string& name)> parameter;  // "conv1.weight"
  GradientBuffer& gradients;                                    // these two outlive the operations
  LayerTimes& times;
  bool dropout = true;
  bool frozen_batch_norm = false;
  // In which convolutions and linear layers multiply, forward and backward. What they take and yield is float32 all the
  // same: 16-bit copies of inputs, weights and output gradients are their own.
  at::ScalarType product_type = at::kFloat;
  // The tensors are in the host's memory, so that this project's own kernels can read them; else LibTorch's are taken.
  bool on_host = true;
};

// The model's layers; neighbours for which there is a fused kernel become one operation. UserError for a layer kind
// that this framework lacks, naming those that it has.
struct Network {
  Operation forward;               // from features to outputs
  std::vector<std::string> fused;  // e.g. "relu+max_pool2d"; each once
  bool reads_rows = false;         // the first operation takes Pass::rows and no notice of its input
};
Network build(const BuildContext& context);

// One layer of a chain that takes one value and stands as well in a graph: linear, dropout, activations. Null for other
// kinds.
Operation make_simple_layer(const models::LayerSpec& layer, size_t index, const BuildContext& context);
// Their names.
std::vector<std::string> simple_layers();

// 0 or 1 / (1 - p), for the layer in this pass: the same on each device.
at::Tensor dropout_mask_of(const Pass& pass, size_t layer, double p, at::IntArrayRef shape, const at::Device& device);

}  // namespace mlbench::framework::torch_framework
