#pragma once

// Batch normalisation (Ioffe & Szegedy 2015) of images laid out {samples, height, width, channels}, with the ReLU and
// the residual sum that may follow. The kernels make as few passes over memory as there can be: forward, two reads and
// one write. Per channel c, over all `rows` = samples * height * width:
//   y = act((x - mean) * inv_std * weight + bias [+ addend]),   act: ReLU or nothing
// Sums are taken over fixed blocks of rows, for 16 rows in float32 and then in float64, and joined in order. So the
// result does not depend on the number of threads. Each kernel has a plain reference in float64.

#include <cstdint>

namespace mlbench::framework::torch_framework {

struct NormShape {
  int64_t rows = 0;
  int64_t channels = 0;
};

// Whether the kernels take this shape: the number of channels must be a multiple of 16, and not 0, and there must be
// rows.
bool batch_norm_takes(const NormShape& shape);

// Computes mean and biased variance of each channel, [channels] each.
void batch_statistics(const float* x, const NormShape& shape, float* mean, float* variance);

struct NormParameters {
  const float* mean;     // all pointers: [channels]
  const float* inv_std;  // 1 / sqrt(variance + eps)
  const float* weight;
  const float* bias;
};

// Computes y. `addend` is null, or has the layout of `x`. `y` may be `x`.
void batch_norm_forward(const float* x, const float* addend, const NormShape& shape, const NormParameters& parameters,
                        bool relu, float* y);

// Computes the gradients from `dy`. `y` is read with `relu` alone, and shows where ReLU let values through; otherwise
// `y` may be null. With `of_batch`, the statistics are those of the batch, through which gradients flow; otherwise they
// are constants. `dx` and `d_addend` may be null, for gradients that are not wanted. `d_addend` receives the gradient
// that reaches the sum.
void batch_norm_backward(const float* x, const float* y, const float* dy, const NormShape& shape,
                         const NormParameters& parameters, bool relu, bool of_batch, float* dx, float* d_addend,
                         float* d_weight, float* d_bias);

void batch_statistics_reference(const float* x, const NormShape& shape, double* mean, double* variance);
void batch_norm_forward_reference(const float* x, const float* addend, const NormShape& shape,
                                  const NormParameters& parameters, bool relu, double* y);
void batch_norm_backward_reference(const float* x, const float* y, const float* dy, const NormShape& shape,
                                   const NormParameters& parameters, bool relu, bool of_batch, double* dx,
                                   double* d_addend, double* d_weight, double* d_bias);

}  // namespace mlbench::framework::torch_framework
