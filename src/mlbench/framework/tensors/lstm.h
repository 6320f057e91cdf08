#pragma once

// An LSTM over whole sequences. The product with the inputs, and the products for gradients of weights, are each one
// product over all positions. The products with the states are made position by position.

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace mlbench::framework {

struct LstmWeights {
  at::Tensor ih, hh;            // [4H, in], [4H, H]
  at::Tensor bias_ih, bias_hh;  // [4H]
};

// The order of rows of a batch's sequences, the longest sequence first. A matrix has the rows of position 0, then those
// of position 1, and so on; each position has a row for every sequence that is long enough. Where all sequences have
// one length, the matrix [T B, features] is the tensor [T, B, features].
struct LstmRows {
  std::vector<int64_t> sequences;  // the number of sequences at each position; it never grows
  int64_t positions() const { return static_cast<int64_t>(sequences.size()); }
};
// The rows of `sequences` sequences with `positions` positions each.
inline LstmRows lstm_rows(int64_t positions, int64_t sequences) {
  return {std::vector<int64_t>(static_cast<size_t>(positions), sequences)};
}

// What a forward pass leaves for the backward pass. There are B sequences, N rows and H units.
struct LstmTape {
  LstmRows rows;
  at::Tensor x;                      // [N, in], prepared() for products
  at::Tensor states;                 // [B + N, H]; the first B rows are the start
  at::Tensor cells;                  // [B + N, H], as `states`
  at::Tensor gates;                  // [N, 4H]; the backward pass replaces them by their gradient
  at::Tensor ih, hh;                 // the weights; `ih` is prepared()
  at::ScalarType type = at::kFloat;  // the type to which factors of products are rounded
  int64_t sequences() const { return states.size(0) - gates.size(0); }
  at::Tensor output() const { return states.narrow(0, sequences(), gates.size(0)); }
  at::Tensor before() const;  // [N, H]: for each row, the state one position earlier
};

// Runs the LSTM forward. Weights, `state` and `cell` (the start, [B, H] each) are float32; factors of products are
// rounded to `product_type`. `x` is [N, in]. With `on_host`, the kernels of lstm_kernels.h compute, otherwise their
// references.
LstmTape lstm_forward(const at::Tensor& x, const LstmRows& rows, const LstmWeights& weights, const at::Tensor& state,
                      const at::Tensor& cell, at::ScalarType product_type, bool on_host);

// Runs the LSTM backward from the gradient of the output, and stores the gradient of the gates in `tape`. From that,
// the caller computes the gradients of the biases (its sum over rows) and of the weights (its products with `x` and
// before()). Returns the gradient of `x` where `input_wanted`, else an undefined tensor. No gradient is computed for
// the start.
at::Tensor lstm_backward(LstmTape& tape, const at::Tensor& d_output, bool input_wanted, bool on_host);

}  // namespace mlbench::framework
