#pragma once

// What rules for matrices of hidden layers share: which tensors these are, and what is left to another rule.

#include <ATen/ATen.h>

#include <cstddef>
#include <functional>

#include "mlbench/base/flat_layout.h"
#include "mlbench/optim/rules/adam.h"

namespace mlbench::optim {

// The trainable ranges that are matrices but no embeddings, where they lie in the whole buffer.
FlatLayout hidden_matrices(const FlatLayout& layout);
// The other trainable ranges, likewise.
FlatLayout other_tensors(const FlatLayout& layout);

// A view of such a range of a flat tensor: its first dimension x all else.
at::Tensor matrix_in(const at::Tensor& flat, const FlatRange& range);

// One update of all parameters: `adam` updates the other tensors at the rate `adam_lr`, and the i-th matrix becomes
// new_weights(i, its weights, gradient_scale * its gradient).
using NewWeights = std::function<at::Tensor(size_t i, const at::Tensor& weights, const at::Tensor& gradient)>;
void update_beside_adam(FlatTensors& tensors, const FlatLayout& matrices, double gradient_scale, AdamRule& adam,
                        double adam_lr, const NewWeights& new_weights);

}  // namespace mlbench::optim
