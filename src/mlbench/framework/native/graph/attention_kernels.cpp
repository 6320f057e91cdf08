#include "mlbench/framework/native/graph/attention_kernels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "mlbench/base/vector_clones.h"
#include "mlbench/framework/tensors/dropout.h"
#include "mlbench/framework/tensors/vector_math.h"

namespace mlbench::framework::native_framework {

namespace {

constexpr int64_t kLanesAtOnce = 16;
using Lanes [[gnu::vector_size(64), gnu::aligned(4), gnu::may_alias]] = float;

const Lanes* lanes_at(const float* at) { return reinterpret_cast<const Lanes*>(at); }

// A product c = a b of [m, k] and [k, n], where element (i, p) of a is a[i * a_rows + p * a_columns].
struct SmallProduct {
  int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  int64_t a_rows = 0, a_columns = 0;
  const float* b = nullptr;
  int64_t b_stride = 0;
  float* c = nullptr;
  int64_t c_stride = 0;
};

template <int kRows, int kVectors>
[[gnu::always_inline]] inline void product_block(const SmallProduct& of, int64_t row, int64_t column) {
  Lanes sums[kRows][kVectors] = {};
  const float* a = of.a + row * of.a_rows;
  const float* b = of.b + column;
  for (int64_t p = 0; p < of.k; ++p, a += of.a_columns, b += of.b_stride) {
    for (int v = 0; v < kVectors; ++v) {
      const Lanes right = *lanes_at(b + v * kLanesAtOnce);
      for (int r = 0; r < kRows; ++r) sums[r][v] += a[r * of.a_rows] * right;
    }
  }
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      *reinterpret_cast<Lanes*>(of.c + (row + r) * of.c_stride + column + v * kLanesAtOnce) = sums[r][v];
    }
  }
}

template <int kVectors>
[[gnu::always_inline]] inline void product_columns(const SmallProduct& of, int64_t column) {
  int64_t row = 0;
  for (; row + 4 <= of.m; row += 4) product_block<4, kVectors>(of, row, column);
  for (; row < of.m; ++row) product_block<1, kVectors>(of, row, column);
}

MLBENCH_VECTOR_CLONES
void small_product(const SmallProduct& of) {
  int64_t column = 0;
  for (; column + 4 * kLanesAtOnce <= of.n; column += 4 * kLanesAtOnce) product_columns<4>(of, column);
  for (; column + kLanesAtOnce <= of.n; column += kLanesAtOnce) product_columns<1>(of, column);
  for (; column < of.n; ++column) {
    for (int64_t row = 0; row < of.m; ++row) {
      float sum = 0;
      for (int64_t p = 0; p < of.k; ++p)
        sum += of.a[row * of.a_rows + p * of.a_columns] * of.b[p * of.b_stride + column];
      of.c[row * of.c_stride + column] = sum;
    }
  }
}

// The number of lanes fixes the order of additions.
[[gnu::always_inline]] inline float sum_of(const Lanes& lanes) {
  float sum = 0;
  for (int64_t i = 0; i < kLanesAtOnce; ++i) sum += lanes[i];
  return sum;
}

// Computes in place the softmax of scale * z over the first `count` values, with zeros from there to `all`, a multiple
// of the lanes.
MLBENCH_VECTOR_CLONES
void softmax_row(float* __restrict z, int64_t count, int64_t all, float scale) {
  std::fill(z + count, z + all, -std::numeric_limits<float>::infinity());
  Lanes most = *lanes_at(z), sums = {};
  for (int64_t j = kLanesAtOnce; j < all; j += kLanesAtOnce) {
    const Lanes values = *lanes_at(z + j);
    most = values > most ? values : most;
  }
  float largest = most[0];
  for (int64_t i = 1; i < kLanesAtOnce; ++i) largest = std::max(largest, most[i]);
  for (int64_t j = 0; j < all; ++j) z[j] = fast_exp(scale * (z[j] - largest));
  std::fill(z + count, z + all, 0.0F);
  for (int64_t j = 0; j < all; j += kLanesAtOnce) sums += *lanes_at(z + j);
  const float inverse = 1 / sum_of(sums);
  for (int64_t j = 0; j < all; ++j) z[j] *= inverse;
}

// Turns `d`, the gradient of the weights, into that of the scores. Both end in zeros up to `all`.
MLBENCH_VECTOR_CLONES
void softmax_row_backward(const float* __restrict weights, float* __restrict d, int64_t all, float scale) {
  Lanes sums = {};
  for (int64_t j = 0; j < all; j += kLanesAtOnce) sums += *lanes_at(weights + j) * *lanes_at(d + j);
  const float sum = sum_of(sums);
  for (int64_t j = 0; j < all; ++j) d[j] = scale * weights[j] * (d[j] - sum);
}

MLBENCH_VECTOR_CLONES
void multiply_by(const float* __restrict factors, int64_t count, float* __restrict values) {
  for (int64_t j = 0; j < count; ++j) values[j] *= factors[j];
}

MLBENCH_VECTOR_CLONES
void times(const float* __restrict a, const float* __restrict b, int64_t count, float* __restrict to) {
  for (int64_t j = 0; j < count; ++j) to[j] = a[j] * b[j];
}

// Memory of a thread, which it keeps from one head to the next.
struct Scratch {
  std::vector<float> turned, mask, weights, gradients;
};
thread_local Scratch scratch;

float* room(std::vector<float>& values, int64_t count) {
  if (static_cast<int64_t>(values.size()) < count) values.resize(static_cast<size_t>(count));
  return values.data();
}

// The transpose [width, stride] of `count` rows, with zeros after the last one.
const float* turned(const HeadRows& rows, int64_t count, int64_t width, int64_t stride) {
  float* to = room(scratch.turned, width * stride);
  for (int64_t j = 0; j < count; ++j) {
    for (int64_t i = 0; i < width; ++i) to[i * stride + j] = rows.values[j * rows.stride + i];
  }
  for (int64_t i = 0; i < width; ++i) std::fill(to + i * stride + count, to + (i + 1) * stride, 0.0F);
  return to;
}

// The dropout mask of the weights; null: there is no dropout.
const float* mask_of(const HeadShape& shape) {
  if (shape.p == 0 || shape.queries == 0) return nullptr;
  const int64_t count = (shape.queries - 1) * shape.mask_stride + shape.keys;
  float* mask = room(scratch.mask, count);
  dropout_mask_part(shape.mask_key, shape.p, shape.mask_first, {mask, static_cast<size_t>(count)});
  return mask;
}

int64_t seen_by(const HeadShape& shape, int64_t query) { return shape.causal ? query + 1 : shape.keys; }
float scale_of(const HeadShape& shape) { return 1 / std::sqrt(static_cast<float>(shape.width)); }

// The weights after dropout.
const float* dropped(const HeadShape& shape, const float* weights, const float* mask) {
  if (mask == nullptr) return weights;
  const int64_t stride = shape.weights_stride();
  float* to = room(scratch.weights, shape.queries * stride);
  for (int64_t i = 0; i < shape.queries; ++i) {
    times(weights + i * stride, mask + i * shape.mask_stride, shape.keys, to + i * stride);
  }
  return to;
}

}  // namespace

void attend(const HeadShape& shape, HeadRows queries, HeadRows keys, HeadRows values, float* weights, float* output,
            int64_t output_stride) {
  if (shape.keys == 0) {
    for (int64_t i = 0; i < shape.queries; ++i) std::fill_n(output + i * output_stride, shape.width, 0.0F);
    return;
  }
  const int64_t stride = shape.weights_stride();
  small_product({.m = shape.queries,
                 .n = stride,
                 .k = shape.width,
                 .a = queries.values,
                 .a_rows = queries.stride,
                 .a_columns = 1,
                 .b = turned(keys, shape.keys, shape.width, stride),
                 .b_stride = stride,
                 .c = weights,
                 .c_stride = stride});
  for (int64_t i = 0; i < shape.queries; ++i) {
    softmax_row(weights + i * stride, seen_by(shape, i), stride, scale_of(shape));
  }
  small_product({.m = shape.queries,
                 .n = shape.width,
                 .k = shape.keys,
                 .a = dropped(shape, weights, mask_of(shape)),
                 .a_rows = stride,
                 .a_columns = 1,
                 .b = values.values,
                 .b_stride = values.stride,
                 .c = output,
                 .c_stride = output_stride});
}

void attend_backward(const HeadShape& shape, HeadRows queries, HeadRows keys, HeadRows values, const float* weights,
                     HeadRows output_gradient, const HeadGradients& gradients) {
  const int64_t stride = shape.weights_stride();
  const float* mask = mask_of(shape);
  small_product({.m = shape.keys,
                 .n = shape.width,
                 .k = shape.queries,
                 .a = dropped(shape, weights, mask),
                 .a_rows = 1,
                 .a_columns = stride,
                 .b = output_gradient.values,
                 .b_stride = output_gradient.stride,
                 .c = gradients.values,
                 .c_stride = gradients.keys_stride});
  float* d = room(scratch.gradients, shape.queries * stride);
  small_product({.m = shape.queries,
                 .n = stride,
                 .k = shape.width,
                 .a = output_gradient.values,
                 .a_rows = output_gradient.stride,
                 .a_columns = 1,
                 .b = turned(values, shape.keys, shape.width, stride),
                 .b_stride = stride,
                 .c = d,
                 .c_stride = stride});
  for (int64_t i = 0; i < shape.queries; ++i) {
    float* row = d + i * stride;
    // A key that a query does not see has weight 0, and so no gradient.
    if (mask != nullptr) multiply_by(mask + i * shape.mask_stride, shape.keys, row);
    softmax_row_backward(weights + i * stride, row, stride, scale_of(shape));
  }
  small_product({.m = shape.queries,
                 .n = shape.width,
                 .k = shape.keys,
                 .a = d,
                 .a_rows = stride,
                 .a_columns = 1,
                 .b = keys.values,
                 .b_stride = keys.stride,
                 .c = gradients.queries,
                 .c_stride = gradients.queries_stride});
  small_product({.m = shape.keys,
                 .n = shape.width,
                 .k = shape.queries,
                 .a = d,
                 .a_rows = 1,
                 .a_columns = stride,
                 .b = queries.values,
                 .b_stride = queries.stride,
                 .c = gradients.keys,
                 .c_stride = gradients.keys_stride});
}

}  // namespace mlbench::framework::native_framework
