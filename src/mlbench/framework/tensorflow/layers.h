#pragma once

// The layers of chains (models/layer_kinds.h) as operations of a TensorFlow graph, each with its gradients. Images are
// {samples, height, width, channels}, the layout that TensorFlow's CPU kernels take.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/framework/tensorflow/graph.h"
#include "mlbench/models/model.h"

namespace mlbench::framework::tensorflow_framework {

// A parameter's gradient, in the parameter's own shape.
struct ParameterGradient {
  std::string parameter;
  Output value;
};

// The gradients of one layer.
struct LayerGradients {
  Output input = {nullptr, 0};  // a null operation: not asked for
  std::vector<ParameterGradient> parameters;
};

// A layer in the graph. `backward` adds the operations that compute its gradients from `dy`, that of `output`.
struct BuiltLayer {
  Output output;
  std::function<LayerGradients(Output dy, bool input_wanted)> backward;
};

// What layers ask of the network that they are built for.
struct LayerContext {
  Graph& graph;
  bool training = false;
  bool dropout = true;
  bool frozen_batch_norm = false;
  // The value of a parameter, or of a buffer such as a running mean, by its full name.
  std::function<Output(const std::string& name)> value;
  // A dropout mask for layer number `layer` of its chain, for samples of `shape` in the neutral order.
  std::function<Output(size_t layer, double p, const std::vector<int64_t>& shape)> mask;
  // Notes where the batch's mean and unbiased variance come from, which a training pass averages into the buffers.
  std::function<void(const models::LayerSpec& layer, Output mean, Output variance)> statistics;
};

// What a layer is built from: `x` is its input, `shape` that of one sample of it in the neutral order, {channels,
// height, width} or {features}, and `index` the layer's place in its chain.
struct LayerInput {
  const models::LayerSpec& layer;
  size_t index = 0;
  Output x;
  const std::vector<int64_t>& shape;
};

// Throws UserError for a kind of layer that this framework lacks, naming those that it has. A residual layer, which
// consists of chains, is not built here.
BuiltLayer build_layer(const LayerInput& input, const LayerContext& context, const std::string& model);
// The kinds that build_layer() takes, and "residual".
const std::vector<std::string_view>& chain_layers();

}  // namespace mlbench::framework::tensorflow_framework
