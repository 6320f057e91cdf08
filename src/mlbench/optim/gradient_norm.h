#pragma once

// The Euclidean norm of the whole gradient, in float64: the same bits on every machine and for every number of threads.

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "mlbench/base/flat_layout.h"

namespace mlbench::optim {

// Squares in 16 sums, element i in sum i % 16, which are added in order at the end. A square of a float32 is exact in
// float64 and no sum of them overflows: the result is finite if and only if all values are.
double sum_of_squares_reference(const float* values, int64_t count);
// The same to the bit, vectorised.
double sum_of_squares(const float* values, int64_t count);

// One pass over the gradient, which reads it. Padding does not count.
class GradientNorm {
 public:
  explicit GradientNorm(const FlatLayout& layout);
  // Infinite or NaN if and only if an element is.
  double of(const at::Tensor& gradients);

 private:
  struct Block {
    int64_t offset = 0, count = 0;
  };
  std::vector<Block> blocks_;  // summed each by itself, then in this order
  std::vector<double> sums_;
};

}  // namespace mlbench::optim
