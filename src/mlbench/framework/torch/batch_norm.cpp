#include "mlbench/framework/torch/batch_norm.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "mlbench/base/vector_clones.h"

namespace mlbench::framework::torch_framework {

namespace {

constexpr int64_t kLanes = 16;             // channels that a loop takes at once: one cache line
constexpr int64_t kBlockElements = 16384;  // elements of a block of rows, read twice, the second time from the cache

int64_t rows_per_block(const NormShape& shape) { return std::max<int64_t>(1, kBlockElements / shape.channels); }
int64_t blocks_of(const NormShape& shape) {
  const int64_t rows = rows_per_block(shape);
  return (shape.rows + rows - 1) / rows;
}

template <typename Block>
void for_blocks(const NormShape& shape, const Block& block) {
  const int64_t rows = rows_per_block(shape);
  at::parallel_for(0, blocks_of(shape), 2, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) block(b, b * rows, std::min(shape.rows, (b + 1) * rows));
  });
}

// Rows that are summed in float32 before they join the float64 sum of a block.
constexpr int64_t kChunk = 16;

// Computes the sum, and the sum of squared distances from the block's own mean.
MLBENCH_VECTOR_CLONES
void block_moments(const float* x, int64_t rows, int64_t stride, double* sum, double* squares) {
  for (int64_t i = 0; i < kLanes; ++i) sum[i] = 0, squares[i] = 0;
  for (int64_t begin = 0; begin < rows; begin += kChunk) {
    float part[kLanes] = {};
    for (int64_t r = begin; r < std::min(rows, begin + kChunk); ++r) {
      for (int64_t i = 0; i < kLanes; ++i) part[i] += x[r * stride + i];
    }
    for (int64_t i = 0; i < kLanes; ++i) sum[i] += part[i];
  }
  float mean[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) mean[i] = static_cast<float>(sum[i] / static_cast<double>(rows));
  for (int64_t begin = 0; begin < rows; begin += kChunk) {
    float part[kLanes] = {};
    for (int64_t r = begin; r < std::min(rows, begin + kChunk); ++r) {
      for (int64_t i = 0; i < kLanes; ++i) {
        const float distance = x[r * stride + i] - mean[i];
        part[i] += distance * distance;
      }
    }
    for (int64_t i = 0; i < kLanes; ++i) squares[i] += part[i];
  }
}

template <bool kAdd, bool kRelu>
[[gnu::always_inline]] inline void forward_rows(const float* x, const float* addend, int64_t rows, int64_t stride,
                                                const float* mean, const float* scale, const float* bias, float* y) {
  float m[kLanes], s[kLanes], b[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) m[i] = mean[i], s[i] = scale[i], b[i] = bias[i];
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < kLanes; ++i) {
      float value = (x[r * stride + i] - m[i]) * s[i] + b[i];
      if constexpr (kAdd) value += addend[r * stride + i];
      if constexpr (kRelu) value = value < 0 ? 0 : value;  // NaN passes
      y[r * stride + i] = value;
    }
  }
}

MLBENCH_VECTOR_CLONES
void forward_block(const float* x, const float* addend, int64_t rows, int64_t stride, const float* mean,
                   const float* scale, const float* bias, bool relu, float* y) {
  if (addend != nullptr && relu) return forward_rows<true, true>(x, addend, rows, stride, mean, scale, bias, y);
  if (addend != nullptr) return forward_rows<true, false>(x, addend, rows, stride, mean, scale, bias, y);
  if (relu) return forward_rows<false, true>(x, addend, rows, stride, mean, scale, bias, y);
  return forward_rows<false, false>(x, addend, rows, stride, mean, scale, bias, y);
}

template <bool kRelu>
[[gnu::always_inline]] inline void sum_rows(const float* x, const float* y, const float* dy, int64_t rows,
                                            int64_t stride, const float* mean, double* sum, double* product) {
  float m[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) m[i] = mean[i], sum[i] = 0, product[i] = 0;
  for (int64_t begin = 0; begin < rows; begin += kChunk) {
    float part[kLanes] = {}, products[kLanes] = {};
    for (int64_t r = begin; r < std::min(rows, begin + kChunk); ++r) {
      for (int64_t i = 0; i < kLanes; ++i) {
        const int64_t at = r * stride + i;
        float g = dy[at];
        if constexpr (kRelu) g = y[at] > 0 ? g : 0;
        part[i] += g;
        products[i] += g * (x[at] - m[i]);
      }
    }
    for (int64_t i = 0; i < kLanes; ++i) sum[i] += part[i], product[i] += products[i];
  }
}

// Computes the sums of the gradient that ReLU lets through, and of its products with x - mean.
MLBENCH_VECTOR_CLONES
void block_sums(const float* x, const float* y, const float* dy, int64_t rows, int64_t stride, const float* mean,
                bool relu, double* sum, double* product) {
  if (relu) return sum_rows<true>(x, y, dy, rows, stride, mean, sum, product);
  return sum_rows<false>(x, y, dy, rows, stride, mean, sum, product);
}

template <bool kRelu, bool kAdd>
[[gnu::always_inline]] inline void backward_rows(const float* x, const float* y, const float* dy, int64_t rows,
                                                 int64_t stride, const float* mean, const float* a, const float* b,
                                                 const float* c, float* dx, float* d_addend) {
  float m[kLanes], fa[kLanes], fb[kLanes], fc[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) m[i] = mean[i], fa[i] = a[i], fb[i] = b[i], fc[i] = c[i];
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < kLanes; ++i) {
      const int64_t at = r * stride + i;
      float g = dy[at];
      if constexpr (kRelu) g = y[at] > 0 ? g : 0;
      if constexpr (kAdd) d_addend[at] = g;
      dx[at] = fa[i] * g + (fb[i] * (x[at] - m[i]) + fc[i]);
    }
  }
}

MLBENCH_VECTOR_CLONES
void backward_block(const float* x, const float* y, const float* dy, int64_t rows, int64_t stride, const float* mean,
                    const float* a, const float* b, const float* c, bool relu, float* dx, float* d_addend) {
  const bool add = d_addend != nullptr;
  if (relu && add) return backward_rows<true, true>(x, y, dy, rows, stride, mean, a, b, c, dx, d_addend);
  if (relu) return backward_rows<true, false>(x, y, dy, rows, stride, mean, a, b, c, dx, d_addend);
  if (add) return backward_rows<false, true>(x, y, dy, rows, stride, mean, a, b, c, dx, d_addend);
  return backward_rows<false, false>(x, y, dy, rows, stride, mean, a, b, c, dx, d_addend);
}

}  // namespace

bool batch_norm_takes(const NormShape& shape) {
  return shape.rows > 0 && shape.channels > 0 && shape.channels % kLanes == 0;
}

void batch_statistics(const float* x, const NormShape& shape, float* mean, float* variance) {
  const int64_t channels = shape.channels;
  std::vector<double> sums(static_cast<size_t>(blocks_of(shape) * channels)), squares(sums.size());
  for_blocks(shape, [&](int64_t block, int64_t begin, int64_t end) {
    for (int64_t c = 0; c < channels; c += kLanes) {
      block_moments(x + begin * channels + c, end - begin, channels, sums.data() + block * channels + c,
                    squares.data() + block * channels + c);
    }
  });
  const int64_t rows = rows_per_block(shape);
  for (int64_t c = 0; c < channels; ++c) {
    double total = 0, deviation = 0;
    for (int64_t b = 0; b < blocks_of(shape); ++b) total += sums[static_cast<size_t>(b * channels + c)];
    const double centre = total / static_cast<double>(shape.rows);
    for (int64_t b = 0; b < blocks_of(shape); ++b) {
      const auto count = static_cast<double>(std::min(rows, shape.rows - b * rows));
      // The block's squared distances are from its mean as a float.
      const double shift = static_cast<float>(sums[static_cast<size_t>(b * channels + c)] / count) - centre;
      deviation += squares[static_cast<size_t>(b * channels + c)] + count * shift * shift;
    }
    mean[c] = static_cast<float>(centre);
    variance[c] = static_cast<float>(deviation / static_cast<double>(shape.rows));
  }
}

void batch_norm_forward(const float* x, const float* addend, const NormShape& shape, const NormParameters& p, bool relu,
                        float* y) {
  std::vector<float> scale(static_cast<size_t>(shape.channels));
  for (int64_t c = 0; c < shape.channels; ++c) scale[static_cast<size_t>(c)] = p.inv_std[c] * p.weight[c];
  for_blocks(shape, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t c = 0; c < shape.channels; c += kLanes) {
      const int64_t at = begin * shape.channels + c;
      forward_block(x + at, addend != nullptr ? addend + at : nullptr, end - begin, shape.channels, p.mean + c,
                    scale.data() + c, p.bias + c, relu, y + at);
    }
  });
}

void batch_norm_backward(const float* x, const float* y, const float* dy, const NormShape& shape,
                         const NormParameters& p, bool relu, bool of_batch, float* dx, float* d_addend, float* d_weight,
                         float* d_bias) {
  const int64_t channels = shape.channels;
  std::vector<double> sums(static_cast<size_t>(blocks_of(shape) * channels)), products(sums.size());
  for_blocks(shape, [&](int64_t block, int64_t begin, int64_t end) {
    for (int64_t c = 0; c < channels; c += kLanes) {
      const int64_t at = begin * channels + c;
      block_sums(x + at, y != nullptr ? y + at : nullptr, dy + at, end - begin, channels, p.mean + c, relu,
                 sums.data() + block * channels + c, products.data() + block * channels + c);
    }
  });
  // The gradient is dx = a * g + b * (x - mean) + c.
  std::vector<float> a(static_cast<size_t>(channels)), b(a.size()), c(a.size());
  for (int64_t i = 0; i < channels; ++i) {
    double sum = 0, product = 0;
    for (int64_t block = 0; block < blocks_of(shape); ++block) {
      sum += sums[static_cast<size_t>(block * channels + i)];
      product += products[static_cast<size_t>(block * channels + i)];
    }
    const double inv_std = p.inv_std[i], scale = inv_std * p.weight[i];
    const auto rows = static_cast<double>(shape.rows);
    d_bias[i] = static_cast<float>(sum);
    d_weight[i] = static_cast<float>(product * inv_std);
    a[static_cast<size_t>(i)] = static_cast<float>(scale);
    b[static_cast<size_t>(i)] = of_batch ? static_cast<float>(-scale * inv_std * inv_std * product / rows) : 0.0F;
    c[static_cast<size_t>(i)] = of_batch ? static_cast<float>(-scale * sum / rows) : 0.0F;
  }
  if (dx == nullptr) return;
  for_blocks(shape, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = 0; i < channels; i += kLanes) {
      const int64_t at = begin * channels + i;
      backward_block(x + at, y != nullptr ? y + at : nullptr, dy + at, end - begin, channels, p.mean + i, a.data() + i,
                     b.data() + i, c.data() + i, relu, dx + at, d_addend != nullptr ? d_addend + at : nullptr);
    }
  });
}

void batch_statistics_reference(const float* x, const NormShape& shape, double* mean, double* variance) {
  for (int64_t c = 0; c < shape.channels; ++c) {
    double sum = 0, squares = 0;
    for (int64_t r = 0; r < shape.rows; ++r) sum += x[r * shape.channels + c];
    mean[c] = sum / static_cast<double>(shape.rows);
    for (int64_t r = 0; r < shape.rows; ++r) {
      const double deviation = x[r * shape.channels + c] - mean[c];
      squares += deviation * deviation;
    }
    variance[c] = squares / static_cast<double>(shape.rows);
  }
}

void batch_norm_forward_reference(const float* x, const float* addend, const NormShape& shape, const NormParameters& p,
                                  bool relu, double* y) {
  for (int64_t i = 0; i < shape.rows * shape.channels; ++i) {
    const int64_t c = i % shape.channels;
    const double normal = (static_cast<double>(x[i]) - p.mean[c]) * p.inv_std[c];
    const double value = normal * p.weight[c] + p.bias[c] + (addend != nullptr ? addend[i] : 0.0F);
    y[i] = relu && value < 0 ? 0 : value;
  }
}

void batch_norm_backward_reference(const float* x, const float* y, const float* dy, const NormShape& shape,
                                   const NormParameters& p, bool relu, bool of_batch, double* dx, double* d_addend,
                                   double* d_weight, double* d_bias) {
  std::fill_n(d_weight, shape.channels, 0.0);
  std::fill_n(d_bias, shape.channels, 0.0);
  const auto normal = [&](int64_t i) {
    const int64_t c = i % shape.channels;
    return (static_cast<double>(x[i]) - p.mean[c]) * p.inv_std[c];
  };
  for (int64_t i = 0; i < shape.rows * shape.channels; ++i) {
    d_addend[i] = relu && !(y[i] > 0) ? 0.0 : dy[i];
    d_weight[i % shape.channels] += d_addend[i] * normal(i);
    d_bias[i % shape.channels] += d_addend[i];
  }
  const auto rows = static_cast<double>(shape.rows);
  for (int64_t i = 0; i < shape.rows * shape.channels; ++i) {
    const int64_t c = i % shape.channels;
    const double of_statistics = of_batch ? (d_bias[c] + normal(i) * d_weight[c]) / rows : 0;
    dx[i] = static_cast<double>(p.weight[c]) * p.inv_std[c] * (d_addend[i] - of_statistics);
  }
}

}  // namespace mlbench::framework::torch_framework
