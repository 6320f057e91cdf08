#pragma once

// Batch normalisation (Ioffe & Szegedy 2015) of images laid out {samples, height, width, channels}, with the ReLU and
// the residual sum that may follow, in as few passes over memory as there can be: two reads and one write forward. Per
// channel c, over all `rows` = samples * height * width:
//   y = act((x - mean) * inv_std * weight + bias [+ addend]),   act: ReLU or nothing
// Sums are taken over fixed blocks of rows, 16 rows in float32, then in float64, and joined in order: the result does
// not depend on the number of threads. Each kernel has a plain reference (float64).

#include <cstdint>

namespace mlbench::framework::torch_framework {

struct NormShape {
  int64_t rows = 0;
  int64_t channels = 0;
};

// Whether the kernels take it: channels in groups of 16.
bool batch_norm_takes(const NormShape& shape);

// Mean and biased variance of each channel, [channels] each.
void batch_statistics(const float* x, const NormShape& shape, float* mean, float* variance);

struct NormParameters {
  const float* mean;     // [channels], as all
  const float* inv_std;  // 1 / sqrt(variance + eps)
  const float* weight;
  const float* bias;
};

// `addend`: null, or as x. `y` may be x.
void batch_norm_forward(const float* x, const float* addend, const NormShape& shape, const NormParameters& parameters,
                        bool relu, float* y);

// Backward of the above. `y` (read when `relu`) tells where ReLU let through. Of the statistics when `of_batch`, else
// of constants. `dx` null: not wanted; `d_addend` null: not wanted, else the gradient that reaches the sum.
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
