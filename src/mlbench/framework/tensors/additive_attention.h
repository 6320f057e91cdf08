#pragma once

// Scores of additive attention, over B sequences, T queries, S positions of the memory and U units:
//   score[b, t, s] = <v, tanh(q[b, t] + k[b, s])>   for s < length[b], else -infinity
// without ever holding all [B, T, S, U] values of tanh: the backward pass computes them again. Kernels on host memory
// with references by LibTorch, which go query by query and run on any device, on a GPU with some queries at a time.

#include <ATen/ATen.h>

#include <cstdint>

namespace mlbench::framework {

struct AdditiveInputs {
  at::Tensor queries;  // [B, T, U], projected, with the bias; all contiguous float32
  at::Tensor keys;     // [B, S, U], projected
  at::Tensor weight;   // [U]: v
  at::Tensor lengths;  // int64 [B]
};
// [B, T, S]
at::Tensor additive_scores(const AdditiveInputs& inputs);

struct AdditiveGradients {
  at::Tensor queries, keys, weight;
};
// `d_scores` [B, T, S]; what is behind a length is not read.
AdditiveGradients additive_scores_backward(const AdditiveInputs& inputs, const at::Tensor& d_scores);

at::Tensor additive_scores_reference(const AdditiveInputs& inputs);
AdditiveGradients additive_scores_backward_reference(const AdditiveInputs& inputs, const at::Tensor& d_scores);

}  // namespace mlbench::framework
