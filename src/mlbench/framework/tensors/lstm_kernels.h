#pragma once

// One position of an LSTM, between its products of matrices: B sequences, H units, gates in the order i f g o.
//   c = sigmoid(f) c' + sigmoid(i) tanh(g),   h = sigmoid(o) tanh(c)
// Kernels on host memory with references by LibTorch, which run on any device.

#include <ATen/ATen.h>

#include <cstdint>

namespace mlbench::framework {

struct LstmShape {
  int64_t sequences = 0, hidden = 0;
};

// `gates` [B, 4H]: in, the sums before activation; out, the activated gates, which the backward pass needs.
// `before`, `cell`, `state` [B, H]: c', c and h.
void lstm_cell(const LstmShape& shape, float* gates, const float* before, float* cell, float* state);
// `gates`: in, the activated ones; out, the gradient of the sums. `d_state` [B, H]: gradient of h. `d_cell` [B, H]: in,
// the gradient of c from the positions behind; out, that of c'.
void lstm_cell_backward(const LstmShape& shape, float* gates, const float* before, const float* cell,
                        const float* d_state, float* d_cell);

void lstm_cell_reference(at::Tensor gates, const at::Tensor& before, at::Tensor cell, at::Tensor state);
void lstm_cell_backward_reference(at::Tensor gates, const at::Tensor& before, const at::Tensor& cell,
                                  const at::Tensor& d_state, at::Tensor d_cell);

}  // namespace mlbench::framework
