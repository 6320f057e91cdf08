#pragma once

// Scores of additive attention, for B sequences, T queries, S positions of the memory and U units:
//   score[b, t, s] = <v, tanh(q[b, t] + k[b, s])>   for s < length[b], else -infinity
// The [B, T, S, U] values of tanh never exist all at once: the backward pass computes them again. The kernels read host
// memory. Each has a reference by LibTorch, which runs on any device, and which takes one query at a time (on a GPU,
// several).

#include <ATen/ATen.h>

#include <cstdint>

namespace mlbench::framework {

struct AdditiveInputs {
  at::Tensor queries;  // [B, T, U], projected, with the bias; all tensors are contiguous, float32 but for `lengths`
  at::Tensor keys;     // [B, S, U], projected
  at::Tensor weight;   // [U]: v
  at::Tensor lengths;  // int64 [B]: the memory's positions that count
};
// The scores [B, T, S].
at::Tensor additive_scores(const AdditiveInputs& inputs);

struct AdditiveGradients {
  at::Tensor queries, keys, weight;
};
// The gradients of the inputs from `d_scores` [B, T, S]. Values at positions from a sequence's length on do not count.
AdditiveGradients additive_scores_backward(const AdditiveInputs& inputs, const at::Tensor& d_scores);

at::Tensor additive_scores_reference(const AdditiveInputs& inputs);
AdditiveGradients additive_scores_backward_reference(const AdditiveInputs& inputs, const at::Tensor& d_scores);

}  // namespace mlbench::framework
