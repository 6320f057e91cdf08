#pragma once

// The Euclidean norm of the whole gradient, in float64. In the host's memory it has the same bits on every machine and
// for every number of threads.

#include <ATen/ATen.h>

#include <cstdint>

#include "mlbench/base/flat_layout.h"
#include "mlbench/optim/rules/arithmetic.h"

namespace mlbench::optim {

// Adds squares into 16 sums, element i into sum i % 16; at the end the sums are added in order. The square of a float32
// is exact in float64, and no sum of squares overflows: the result is finite if and only if all values are.
double sum_of_squares_reference(const float* values, int64_t count);
// The vectorised form, the same to the bit.
double sum_of_squares(const float* values, int64_t count);
// The sum over the layout's trainable ranges in a flat buffer. Blocks are summed one by one, and then added in order.
double sum_of_squares(const float* flat, const FlatLayout& layout);

// Reads the gradient in one pass. Padding does not count.
class GradientNorm {
 public:
  // For gradients in `memory`; null: in the host's.
  explicit GradientNorm(FlatLayout layout, const SeparateMemory* memory = nullptr);
  // The norm, which is infinite or NaN if and only if an element is.
  double of(const at::Tensor& gradients) const;

 private:
  FlatLayout layout_;
  const Arithmetic& arithmetic_;
};

}  // namespace mlbench::optim
