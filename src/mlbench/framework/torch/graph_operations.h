#pragma once

// The layers of graphs (models/layer_kinds.h) as operations on tensors that autograd differentiates.

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

#include "mlbench/framework/torch/operations.h"

namespace mlbench::framework::torch_framework {

// What a layer keeps from one pass to the next; the first extent of each tensor is the row: a sequence, or a hypothesis
// of a decoder.
struct LayerState {
  std::vector<at::Tensor> rows;    // goes on from position to position: states of an LSTM, keys and values so far
  std::vector<at::Tensor> memory;  // of the source, the same for all hypotheses of a sentence
};

// One position of sequences that are being written; layers take and yield one position.
struct DecodePass {
  int64_t position = 0;
  int64_t rows_per_sample = 1;     // hypotheses of each source, next to each other, at position 0
  std::vector<LayerState> states;  // by layer
  at::Tensor attention;            // [rows, source positions], left by the layer that has it
};

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

// 0 or 1 / (1 - p), for the layer in this pass, on the pass's device.
at::Tensor dropout_mask_of(const Pass& pass, size_t layer, double p, at::IntArrayRef shape, const at::Device& device);

// ---- one file each
GraphOperation make_lstm_sequence(const models::LayerSpec& layer, size_t index, const BuildContext& context);
GraphOperation make_multi_head_attention(const models::LayerSpec& layer, size_t index, const BuildContext& context);
GraphOperation make_additive_attention(const models::LayerSpec& layer, size_t index, const BuildContext& context);

}  // namespace mlbench::framework::torch_framework
