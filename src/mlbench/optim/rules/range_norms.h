#pragma once

// Norms of each tensor of a flat buffer, for rules that scale by them.

#include <ATen/ATen.h>

#include <vector>

#include "mlbench/base/flat_layout.h"

namespace mlbench::optim {

// The Euclidean norm of each trainable range, in float64, in the order of the layout's ranges; 0 for the others. On the
// host the same bits for every number of threads. One pass over the buffer.
std::vector<double> range_norms(const at::Tensor& flat, const FlatLayout& layout);

// Whether rules that scale by norms do so for that tensor, and decay its weights.
inline bool scales_by_norm(const FlatRange& range) {
  return range.use == TensorUse::kMatrix || range.use == TensorUse::kEmbedding;
}

}  // namespace mlbench::optim
