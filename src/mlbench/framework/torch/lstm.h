#pragma once

// An LSTM over whole sequences: the products with the inputs, and all gradients of weights, are one product each over
// all positions; the products with the states go position by position.

#include <ATen/ATen.h>

#include "mlbench/framework/torch/operations.h"

namespace mlbench::framework::torch_framework {

struct LstmWeights {
  at::Tensor ih, hh;            // (4H, in), (4H, H)
  at::Tensor bias_ih, bias_hh;  // (4H)
};

// Of a forward pass; what the backward pass needs. T positions, B sequences, H units.
struct LstmTape {
  at::Tensor x;                      // [T, B, in], prepared() for products
  at::Tensor states;                 // [T + 1, B, H], the first is the start
  at::Tensor cells;                  // likewise
  at::Tensor gates;                  // [T, B, 4H]; the backward pass makes their gradient of it, in place
  at::Tensor ih, hh;                 // the weights; `ih` prepared()
  at::ScalarType type = at::kFloat;  // of products
  at::Tensor output() const { return states.narrow(0, 1, states.size(0) - 1); }
};

// Weights and states float32; products in `product_type`. `x` [T, B, in], start [B, H] each. `on_host`: by the kernels
// of lstm_kernels.h, else by their references.
LstmTape lstm_forward(const at::Tensor& x, const LstmWeights& weights, const at::Tensor& state, const at::Tensor& cell,
                      at::ScalarType product_type, bool on_host);

// Leaves the gradient of the gates in the tape: of the sums' biases, as it stands; of weights by products with `x` and
// `states`. The gradient of `x` where it is wanted. Nothing flows into the start.
at::Tensor lstm_backward(LstmTape& tape, const at::Tensor& d_output, bool input_wanted, bool on_host);

}  // namespace mlbench::framework::torch_framework
