#pragma once

// The layers of graphs (models/layer_kinds.h) as operations on tensors that autograd differentiates.

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

#include "mlbench/framework/tensors/sequence_decoder.h"
#include "mlbench/framework/torch/operations.h"

namespace mlbench::framework::torch_framework {

struct GraphPass {
  Pass pass;
  // By layer: states in which the batch before ended, if there are any, and where this one's are left. Null: there is
  // no such batch, and nobody wants them.
  std::vector<LayerState>* carried = nullptr;
  DecodePass* decode = nullptr;  // null: whole sequences
};

using GraphOperation = std::function<at::Tensor(const std::vector<at::Tensor>& inputs, GraphPass& pass)>;

// UserError for a kind that this framework lacks, naming those that it has.
GraphOperation make_graph_operation(const models::LayerSpec& layer, size_t index, const BuildContext& context);

// ---- one file each
GraphOperation make_lstm_sequence(const models::LayerSpec& layer, size_t index, const BuildContext& context);
GraphOperation make_multi_head_attention(const models::LayerSpec& layer, size_t index, const BuildContext& context);
GraphOperation make_additive_attention(const models::LayerSpec& layer, size_t index, const BuildContext& context);

}  // namespace mlbench::framework::torch_framework
