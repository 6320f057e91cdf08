#pragma once

// Builds the operations of a chain from a model's description. Operations work on tensors, and autograd differentiates
// them.

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

#include "mlbench/base/batch.h"
#include "mlbench/framework/tensors/gradients.h"
#include "mlbench/framework/torch/kernels.h"
#include "mlbench/framework/torch/layer_times.h"
#include "mlbench/models/model.h"

namespace mlbench::framework::torch_framework {

// What an operation may need to know about the pass in which it runs.
struct Pass {
  bool training = false;
  uint64_t seed = 0;
  int rank = 0;
  int64_t step = 0;
  int64_t micro_batch = 0;  // earlier training passes of the step
  // The samples, for the first operation of a network that `reads_rows`: dense or sparse ones.
  RowSelection rows;
  const BatchView* sparse_rows = nullptr;
};

using Operation = std::function<at::Tensor(const at::Tensor& input, const Pass& pass)>;

struct BuildContext {
  const models::ModelDescription& model;
  std::function<Parameter(const std::string& name)> parameter;  // by name: "conv1.weight"
  GradientBuffer& gradients;                                    // must outlive the operations, as must `times`
  LayerTimes& times;
  bool dropout = true;
  bool frozen_batch_norm = false;
  // The type to which convolutions and linear layers round factors, forward and backward. What they take and yield is
  // float32 all the same; they make 16-bit copies of inputs, weights and output gradients themselves.
  at::ScalarType product_type = at::kFloat;
  // Whether the tensors are in the host's memory, where this project's own kernels can read them; otherwise LibTorch's
  // kernels compute.
  bool on_host = true;
  bool sparse_rows = false;  // the model is a product of sparse rows with one vector (check_sparse_rows)
  int threads = 1;           // of that product
};

// The model's layers as one operation. Neighbours for which there is a fused kernel become one operation. build()
// throws UserError for a kind of layer that this framework lacks, naming those that it has.
struct Network {
  Operation forward;               // maps features to outputs
  std::vector<std::string> fused;  // the fused kinds, for example "relu+max_pool2d"; each once
  // The first operation reads the rows of the pass, and ignores its input.
  bool reads_rows = false;
};
Network build(const BuildContext& context);

// The operation of a layer that has one input, and that chains and graphs may both contain: linear, ReLU, dropout. Null
// for other kinds.
Operation make_simple_layer(const models::LayerSpec& layer, size_t index, const BuildContext& context);
// The kinds of layer that make_simple_layer() takes.
std::vector<std::string> simple_layers();

// The dropout mask of layer number `layer` in this pass, 0 or 1 / (1 - p) per element. The bits are the same on each
// device.
at::Tensor dropout_mask_of(const Pass& pass, size_t layer, double p, at::IntArrayRef shape, const at::Device& device);

}  // namespace mlbench::framework::torch_framework
