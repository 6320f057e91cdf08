#pragma once

// The layers of models (models/layer_kinds.h) as operations of a TensorFlow graph, each with its gradients. Images are
// {samples, height, width, channels}, the layout that TensorFlow's CPU kernels take. Layers of graphs over tokens alone
// are in graph_layers.h.

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
  std::vector<Output> inputs = {};  // of each input, null for integers; empty: not asked for
  std::vector<ParameterGradient> parameters = {};
};

// A layer in the graph. `backward` adds the operations that compute its gradients from `dy`, that of `output`.
struct BuiltLayer {
  Output output;
  std::function<LayerGradients(Output dy, bool inputs_wanted)> backward;
};

// What a layer is built from: `x` is its input, and `index` the layer's place in its chain or graph. In a chain,
// `shape` is that of one sample of x in the neutral order, {channels, height, width} or {features}; in a graph it is
// empty.
struct LayerInput {
  const models::LayerSpec& layer;
  size_t index = 0;
  Output x;
  std::vector<int64_t> shape = {};
  std::vector<Output> others = {};  // graph: the inputs behind x
};

// The shape of a mask, from the whole shapes of its layer's inputs.
using MaskShape = std::function<std::vector<int64_t>(const std::vector<std::vector<int64_t>>& inputs)>;
// The states of an LSTM's sequences, {sequences, hidden} each.
struct LstmState {
  Output hidden, cells;
};

// What layers ask of a network whose pass computes one position of each row, for a decoder.
struct DecodeContext {
  Output position;  // its number, from 0: int64
  // A value that depends on the sources alone: it is computed once, and is there in each pass.
  std::function<Output(Output x)> from_sources;
  // `x`, {rows, heads, 1, width}, behind what the passes before had there.
  std::function<Output(Output x, int64_t heads, int64_t width)> grown;
  // Notes the weights of attention, {rows, 1, source positions}.
  std::function<void(Output weights)> attention;
};

// What layers ask of the network that they are built for.
struct LayerContext {
  Graph& graph;
  bool training = false;
  bool dropout = true;
  bool frozen_batch_norm = false;
  bool drops(double p) const { return training && dropout && p > 0; }
  // The value of a parameter, or of a buffer such as a running mean, by its full name.
  std::function<Output(const std::string& name)> value;
  // A dropout mask for a layer, in the neutral order.
  std::function<Output(const LayerInput& in, double p, const MaskShape& shape)> mask;
  // Notes where the batch's mean and unbiased variance come from, which a training pass averages into the buffers.
  std::function<void(const models::LayerSpec& layer, Output mean, Output variance)> statistics;
  // The states in which a layer that carries them begins, and a note of those in which it ends.
  std::function<LstmState(const LayerInput& in)> carried;
  std::function<void(const LstmState& state)> carry;
  const DecodeContext* decode = nullptr;  // null: the pass computes whole sequences
};

// Throws UserError for a kind of layer that this framework lacks, naming those that it has. A residual layer, which
// consists of chains, is not built here.
BuiltLayer build_layer(const LayerInput& input, const LayerContext& context, const std::string& model);
// The kinds that build_layer() takes, and "residual".
const std::vector<std::string_view>& chain_layers();

// A layer whose gradients are TensorFlow's own, of all inputs, with the names of its parameters.
BuiltLayer with_own_gradients(const LayerInput& in, const LayerContext& context, Output y,
                              const std::vector<std::string>& parameters = {});
// x * factor, where the factor is not differentiated, and is broadcast to x.
BuiltLayer scaled_by(const LayerInput& in, const LayerContext& context, Output factor);
// The shape of a mask over the whole first input.
std::vector<int64_t> mask_of_input(const std::vector<std::vector<int64_t>>& inputs);

}  // namespace mlbench::framework::tensorflow_framework
