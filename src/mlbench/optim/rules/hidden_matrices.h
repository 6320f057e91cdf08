#pragma once

// What rules for matrices of hidden layers share: which tensors these are, and what is left to another rule.

#include <ATen/ATen.h>

#include "mlbench/base/flat_layout.h"

namespace mlbench::optim {

// The trainable ranges that are matrices but no embeddings, where they lie in the whole buffer.
FlatLayout hidden_matrices(const FlatLayout& layout);
// The other trainable ranges, likewise.
FlatLayout other_tensors(const FlatLayout& layout);

// A view of such a range of a flat tensor: its first dimension x all else.
at::Tensor matrix_in(const at::Tensor& flat, const FlatRange& range);

}  // namespace mlbench::optim
