#pragma once

// The states that layers of a graph keep from one pass to the next.

#include <ATen/ATen.h>

#include <cstdint>
#include <span>
#include <vector>

#include "mlbench/models/model.h"

namespace mlbench::framework {

// The state of one layer. The first extent of each tensor is the row: a sequence, or a hypothesis of a decoder.
struct LayerState {
  std::vector<at::Tensor> rows;    // changes from position to position: states of an LSTM, keys and values so far
  std::vector<at::Tensor> memory;  // made from the source; the same for all hypotheses of a sentence
};

// The states of all layers that carry one from batch to batch, back to back, on the host (Framework::carried_state()).
std::vector<float> values_of(const std::vector<LayerState>& states);
// Converts `values` back to the states of the model's layers, for `sequences` sequences, on `device`. No layer has a
// state where `values` is empty. Fails MLBENCH_CHECK where the number of values does not fit.
std::vector<LayerState> states_of(const models::ModelDescription& model, std::span<const float> values,
                                  int64_t sequences, const at::Device& device);

}  // namespace mlbench::framework
