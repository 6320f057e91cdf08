#pragma once

// An LSTM over whole sequences: the products with the inputs, and all gradients of weights, are one product each over
// all positions; the products with the states go position by position.

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

namespace mlbench::framework {

struct LstmWeights {
  at::Tensor ih, hh;            // (4H, in), (4H, H)
  at::Tensor bias_ih, bias_hh;  // (4H)
};

// Sequences of a batch, the longest first: rows of matrices are those of position 0, then those of position 1, ... of
// the sequences that are that long. Of sequences of one length [T B, features] is [T, B, features].
struct LstmRows {
  std::vector<int64_t> sequences;  // of each position; they never grow more
  int64_t positions() const { return static_cast<int64_t>(sequences.size()); }
};
// T positions of B sequences each.
inline LstmRows lstm_rows(int64_t positions, int64_t sequences) {
  return {std::vector<int64_t>(static_cast<size_t>(positions), sequences)};
}

// Of a forward pass; what the backward pass needs. B sequences, N rows, H units.
struct LstmTape {
  LstmRows rows;
  at::Tensor x;                      // [N, in], prepared() for products
  at::Tensor states;                 // [B + N, H], the first B are the start
  at::Tensor cells;                  // likewise
  at::Tensor gates;                  // [N, 4H]; the backward pass makes their gradient of it, in place
  at::Tensor ih, hh;                 // the weights; `ih` prepared()
  at::ScalarType type = at::kFloat;  // of products
  int64_t sequences() const { return states.size(0) - gates.size(0); }
  at::Tensor output() const { return states.narrow(0, sequences(), gates.size(0)); }
  at::Tensor before() const;  // of each row the state one position earlier, [N, H]
};

// Weights and states float32; products in `product_type`. `x` [N, in], start [B, H] each. `on_host`: by the kernels of
// lstm_kernels.h, else by their references.
LstmTape lstm_forward(const at::Tensor& x, const LstmRows& rows, const LstmWeights& weights, const at::Tensor& state,
                      const at::Tensor& cell, at::ScalarType product_type, bool on_host);

// Leaves the gradient of the gates in the tape: of the sums' biases, as it stands; of weights by products with `x` and
// `before`. The gradient of `x` where it is wanted. Nothing flows into the start.
at::Tensor lstm_backward(LstmTape& tape, const at::Tensor& d_output, bool input_wanted, bool on_host);

}  // namespace mlbench::framework
