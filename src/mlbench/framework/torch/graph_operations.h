#pragma once

// The layers of graphs (models/layer_kinds.h) as operations on rows without padding, which autograd differentiates.

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

#include "mlbench/framework/tensors/row_plan.h"
#include "mlbench/framework/tensors/sequence_decoder.h"
#include "mlbench/framework/torch/operations.h"

namespace mlbench::framework::torch_framework {

struct GraphPass {
  Pass pass;
  // One state per layer: where the previous batch ended, empty where this batch starts anew. The pass replaces each by
  // the state in which this batch ends. Null: no state is carried.
  std::vector<LayerState>* carried = nullptr;
  DecodePass* decode = nullptr;  // the state of a decoder, which computes one position; null: whole sequences
};

using GraphOperation = std::function<GraphValue(const std::vector<GraphValue>& inputs, GraphPass& pass)>;

// Makes the operation of `layer`, number `index` of the model. Throws UserError for a kind that this framework lacks,
// naming those that it has.
GraphOperation make_graph_operation(const models::LayerSpec& layer, size_t index, const BuildContext& context);

// ---- The LSTM is in lstm_layer.cpp, the two kinds of attention are in attention_layers.cpp.
GraphOperation make_lstm_sequence(const models::LayerSpec& layer, size_t index, const BuildContext& context);
GraphOperation make_multi_head_attention(const models::LayerSpec& layer, size_t index, const BuildContext& context);
GraphOperation make_additive_attention(const models::LayerSpec& layer, size_t index, const BuildContext& context);

}  // namespace mlbench::framework::torch_framework
