#pragma once

// Attention of one head of one sequence, by plain loops that compilers turn into SIMD code: products of small matrices,
// softmax, and dropout of the attention weights.
//   weights = softmax(queries keys' / sqrt(width)),   output = (weights * mask) values
// A causal query sees the keys up to its own position alone.

#include <cstdint>

namespace mlbench::framework::native_framework {

// Rows of HeadShape::width values, whose beginnings are `stride` values apart.
struct HeadRows {
  const float* values = nullptr;
  int64_t stride = 0;
};

struct HeadShape {
  int64_t queries = 0, keys = 0, width = 0;
  bool causal = false;
  // Dropout of the weights with probability `p` (0: none). Element (i, j) is element mask_first + i * mask_stride + j
  // of the mask with key `mask_key`.
  uint64_t mask_key = 0;
  double p = 0;
  int64_t mask_first = 0, mask_stride = 0;

  int64_t weights_stride() const { return (keys + 15) / 16 * 16; }  // values from row to row of the weights
};

// Computes `weights`, [queries, weights_stride()], and `output`, rows of `width` values. The weights are those before
// dropout, as the backward pass needs them.
void attend(const HeadShape& shape, HeadRows queries, HeadRows keys, HeadRows values, float* weights, float* output,
            int64_t output_stride);

struct HeadGradients {
  float *queries = nullptr, *keys = nullptr, *values = nullptr;  // all are overwritten
  int64_t queries_stride = 0, keys_stride = 0;                   // `values` has the stride of `keys`
};
// Computes the gradients of queries, keys and values from that of the output. `weights` are those of attend().
void attend_backward(const HeadShape& shape, HeadRows queries, HeadRows keys, HeadRows values, const float* weights,
                     HeadRows output_gradient, const HeadGradients& gradients);

}  // namespace mlbench::framework::native_framework
