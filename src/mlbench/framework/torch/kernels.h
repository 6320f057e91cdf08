#pragma once

// Fused kernels on plain arrays in the host's memory, for operations that LibTorch does in several passes over memory.
// The pooling kernels have plain references that give the same bits.

#include <cstdint>

namespace mlbench::framework::torch_framework {

// ReLU and 2x2 max-pooling with stride 2 of images laid out {samples, height, width, channels}. Height and width must
// be even. The result equals max_pool2d(relu(x)) to the bit, gradients included. `winner` says which of the four values
// (row-major) passes the gradient on: the first of the largest ones, or 4 where ReLU holds the gradient back. NaN
// passes through.
struct PoolShape {
  int64_t samples = 0, height = 0, width = 0, channels = 0;  // extents of the input
};
void relu_max_pool(const float* input, const PoolShape& shape, float* output, uint8_t* winner);
void relu_max_pool_backward(const float* output_gradient, const uint8_t* winner, const PoolShape& shape,
                            float* input_gradient);
void relu_max_pool_reference(const float* input, const PoolShape& shape, float* output, uint8_t* winner);
void relu_max_pool_backward_reference(const float* output_gradient, const uint8_t* winner, const PoolShape& shape,
                                      float* input_gradient);

// Samples of `volume` values each. Sample i is row rows[i] of the matrix at `base`, or row i where `rows` is null.
struct RowSelection {
  const float* base = nullptr;
  const int64_t* rows = nullptr;
  int64_t samples = 0, volume = 0;

  const float* operator[](int64_t sample) const { return base + (rows != nullptr ? rows[sample] : sample) * volume; }
};
// Computes output[i] = <row i, weight>: a linear layer with one output, which need not gather the rows first. The order
// of additions depends on `volume` alone, not on the number of threads.
void rows_times_vector(const RowSelection& rows, const float* weight, float* output);
// Sets gradient[j] to, or with `add` adds to it, the sum over i, in this order, of output_gradient[i] * row i [j].
void rows_times_vector_backward(const RowSelection& rows, const float* output_gradient, bool add, float* gradient);

}  // namespace mlbench::framework::torch_framework
