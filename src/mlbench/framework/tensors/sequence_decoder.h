#pragma once

// A decoder for models that keep a state of every row, layer by layer.

#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "mlbench/framework/framework.h"
#include "mlbench/framework/tensors/layer_state.h"

namespace mlbench::framework {

// The state of a decoder's pass, in which layers take and yield one position of the sequences.
struct DecodePass {
  int64_t position = 0;
  int64_t rows_per_sample = 1;     // hypotheses of each source at position 0; they are next to each other
  std::vector<LayerState> states;  // one per layer
  at::Tensor attention;            // [rows, source positions], stored by the layer that computes it; undefined: none
};

// Sources that have been encoded, ready for decoding.
struct EncodedSources {
  at::Device device = at::kCPU;
  size_t layers = 0;  // the number of layers that may keep a state
  // Computes one position: the log probabilities [rows, classes], on the device, of the tokens that follow `tokens`,
  // int64 [rows]. Must increment pass.position.
  std::function<at::Tensor(const at::Tensor& tokens, DecodePass& pass)> step;
};
using EncodeSources = std::function<EncodedSources(const BatchView& sources)>;

// `encode` is called once for each Decoder::start(). All that `encode` and its results refer to must outlive the
// decoder.
std::unique_ptr<Decoder> make_sequence_decoder(EncodeSources encode);

}  // namespace mlbench::framework
