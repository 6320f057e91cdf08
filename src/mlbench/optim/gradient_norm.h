#pragma once

// The Euclidean norm of the whole gradient, in float64: in the host's memory the same bits on every machine and for
// every number of threads.

#include <ATen/ATen.h>

#include <cstdint>

#include "mlbench/base/flat_layout.h"
#include "mlbench/optim/rules/arithmetic.h"

namespace mlbench::optim {

// Squares in 16 sums, element i in sum i % 16, which are added in order at the end. A square of a float32 is exact in
// float64 and no sum of them overflows: the result is finite if and only if all values are.
double sum_of_squares_reference(const float* values, int64_t count);
// The same to the bit, vectorised.
double sum_of_squares(const float* values, int64_t count);
// Of the layout's trainable ranges in a flat buffer, in blocks that are summed each by itself, then in their order.
double sum_of_squares(const float* flat, const FlatLayout& layout);

// One pass over the gradient, which reads it. Padding does not count.
class GradientNorm {
 public:
  // Of gradients in that memory; null: in the host's.
  explicit GradientNorm(FlatLayout layout, const SeparateMemory* memory = nullptr);
  // Infinite or NaN if and only if an element is.
  double of(const at::Tensor& gradients) const;

 private:
  FlatLayout layout_;
  const Arithmetic& arithmetic_;
};

}  // namespace mlbench::optim
