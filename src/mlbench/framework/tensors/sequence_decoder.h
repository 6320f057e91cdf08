#pragma once

// A decoder of models that keep a state of every row, layer by layer.

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "mlbench/framework/framework.h"
#include "mlbench/framework/tensors/layer_state.h"

namespace mlbench::framework {

// One position of sequences that are being written; layers take and yield one position.
struct DecodePass {
  int64_t position = 0;
  int64_t rows_per_sample = 1;     // hypotheses of each source, next to each other, at position 0
  std::vector<LayerState> states;  // by layer
  at::Tensor attention;            // [rows, source positions], left by the layer that has it
};

// Sources that have been encoded.
struct EncodedSources {
  at::Device device = at::kCPU;
  size_t layers = 0;  // that may keep a state
  // Of one position: log probabilities [rows, classes] on the device. `tokens` int64 [rows]; counts the position.
  std::function<at::Tensor(const at::Tensor& tokens, DecodePass& pass)> step;
};
using EncodeSources = std::function<EncodedSources(const BatchView& sources)>;

// What `encode` and what it yields refer to outlives the decoder.
std::unique_ptr<Decoder> make_sequence_decoder(EncodeSources encode);

}  // namespace mlbench::framework
