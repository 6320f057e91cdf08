#pragma once

// Attention of one head of one sequence, by plain loops that compilers turn into SIMD code: products of small matrices,
// softmax, and dropout of its weights.
//   weights = softmax(queries keys' / sqrt(width)),   output = (weights * mask) values
// A causal query sees the keys up to its own position.

#include <cstdint>

namespace mlbench::framework::native_framework {

// Rows of `width` values, `stride` apart.
struct HeadRows {
  const float* values = nullptr;
  int64_t stride = 0;
};

struct HeadShape {
  int64_t queries = 0, keys = 0, width = 0;
  bool causal = false;
  // Dropout of the weights: element (i, j) is number mask_first + i * mask_stride + j of the mask. p 0: none.
  uint64_t mask_key = 0;
  double p = 0;
  int64_t mask_first = 0, mask_stride = 0;

  int64_t weights_stride() const { return (keys + 15) / 16 * 16; }  // of a row of the weights
};

// `weights` [queries, weights_stride()]: before dropout, as the backward pass needs them. `output` rows of `width`.
void attend(const HeadShape& shape, HeadRows queries, HeadRows keys, HeadRows values, float* weights, float* output,
            int64_t output_stride);

struct HeadGradients {
  float *queries = nullptr, *keys = nullptr, *values = nullptr;  // overwritten
  int64_t queries_stride = 0, keys_stride = 0;                   // values: as keys
};
void attend_backward(const HeadShape& shape, HeadRows queries, HeadRows keys, HeadRows values, const float* weights,
                     HeadRows output_gradient, const HeadGradients& gradients);

}  // namespace mlbench::framework::native_framework
