#pragma once

// One position of an LSTM, without the products of matrices before and after it. There are B sequences and H units; the
// gates are in the order i f g o.
//   c = sigmoid(f) c' + sigmoid(i) tanh(g),   h = sigmoid(o) tanh(c)
// The kernels read host memory. Each has a reference by LibTorch, which runs on any device.

#include <ATen/ATen.h>

#include <cstdint>

namespace mlbench::framework {

struct LstmShape {
  int64_t sequences = 0, hidden = 0;
};

// Computes cell and state. `gates` [B, 4H] has the sums before activation, and receives the activated gates, which the
// backward pass needs. `before`, `cell` and `state` [B, H] are c', c and h.
void lstm_cell(const LstmShape& shape, float* gates, const float* before, float* cell, float* state);
// `gates` has the activated gates, and receives the gradient of the sums. `d_state` [B, H] is the gradient of h.
// `d_cell` [B, H] has the gradient of c from the later positions, and receives that of c'.
void lstm_cell_backward(const LstmShape& shape, float* gates, const float* before, const float* cell,
                        const float* d_state, float* d_cell);

void lstm_cell_reference(at::Tensor gates, const at::Tensor& before, at::Tensor cell, at::Tensor state);
void lstm_cell_backward_reference(at::Tensor gates, const at::Tensor& before, const at::Tensor& cell,
                                  const at::Tensor& d_state, at::Tensor d_cell);

}  // namespace mlbench::framework
