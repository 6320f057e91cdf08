#include "mlbench/framework/torch/kernels.h"

#include <ATen/Parallel.h>

#include <algorithm>

#include "mlbench/base/vector_clones.h"

namespace mlbench::framework::torch_framework {

namespace {

constexpr uint8_t kNobody = 4;

// The values of the four neighbours of one output position, `channels` contiguous values each.
struct Corners {
  const float* c[4];
};

Corners corners_at(const float* input, const PoolShape& s, int64_t row, int64_t column) {
  const float* top = input + (2 * row * s.width + 2 * column) * s.channels;
  const float* bottom = top + s.width * s.channels;
  return {{top, top + s.channels, bottom, bottom + s.channels}};
}

template <typename Pixel>
void for_output_rows(const PoolShape& s, bool parallel, const Pixel& row_of) {
  const int64_t rows = s.samples * (s.height / 2);  // sample and output row; an input sample has an even height
  if (!parallel) {
    for (int64_t row = 0; row < rows; ++row) row_of(row);
    return;
  }
  const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, 2 * s.width * s.channels));
  at::parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) row_of(row);
  });
}

MLBENCH_VECTOR_CLONES
void pool_row(const float* __restrict top, const float* __restrict bottom, int64_t columns, int64_t channels,
              float* __restrict output, uint8_t* __restrict winner) {
  for (int64_t column = 0; column < columns; ++column) {
    const float* a = top + 2 * column * channels;
    const float* b = a + channels;
    const float* c = bottom + 2 * column * channels;
    const float* d = c + channels;
    for (int64_t i = 0; i < channels; ++i) {
      float best = a[i];
      int32_t index = 0;
      const auto challenge = [&](float value, int32_t number) {
        const bool wins = (value > best) | (value != value);
        best = wins ? value : best;
        index = wins ? number : index;
      };
      challenge(b[i], 1);
      challenge(c[i], 2);
      challenge(d[i], 3);
      const bool held = best <= 0;
      output[column * channels + i] = held ? 0 : best;
      winner[column * channels + i] = static_cast<uint8_t>(held ? kNobody : index);
    }
  }
}

MLBENCH_VECTOR_CLONES
void pool_row_backward(const float* __restrict gradient, const uint8_t* __restrict winner, int64_t columns,
                       int64_t channels, float* __restrict top, float* __restrict bottom) {
  for (int64_t column = 0; column < columns; ++column) {
    const float* g = gradient + column * channels;
    const uint8_t* w = winner + column * channels;
    float* a = top + 2 * column * channels;
    float* c = bottom + 2 * column * channels;
    for (int64_t i = 0; i < channels; ++i) {
      const int32_t index = w[i];
      const float value = g[i];
      a[i] = index == 0 ? value : 0;
      a[channels + i] = index == 1 ? value : 0;
      c[i] = index == 2 ? value : 0;
      c[channels + i] = index == 3 ? value : 0;
    }
  }
}

// Enough sums to keep additions in vector registers independent. Their number fixes the order of additions.
constexpr int64_t kLanes = 64;
MLBENCH_VECTOR_CLONES
float dot(const float* __restrict a, const float* __restrict b, int64_t count) {
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (int64_t lane = 0; i + lane < count; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) sums[lane] += sums[half + lane];
  }
  return sums[0];
}

MLBENCH_VECTOR_CLONES
void add_scaled(const float* __restrict values, float scale, int64_t count, float* __restrict sum) {
  for (int64_t i = 0; i < count; ++i) sum[i] += scale * values[i];
}

}  // namespace

void relu_max_pool(const float* input, const PoolShape& s, float* output, uint8_t* winner) {
  const int64_t in_row = s.width * s.channels;
  const int64_t out_row = s.width / 2 * s.channels;
  for_output_rows(s, true, [&](int64_t row) {
    const float* top = input + 2 * row * in_row;
    pool_row(top, top + in_row, s.width / 2, s.channels, output + row * out_row, winner + row * out_row);
  });
}

void relu_max_pool_backward(const float* output_gradient, const uint8_t* winner, const PoolShape& s,
                            float* input_gradient) {
  const int64_t in_row = s.width * s.channels;
  const int64_t out_row = s.width / 2 * s.channels;
  for_output_rows(s, true, [&](int64_t row) {
    float* top = input_gradient + 2 * row * in_row;
    pool_row_backward(output_gradient + row * out_row, winner + row * out_row, s.width / 2, s.channels, top,
                      top + in_row);
  });
}

void relu_max_pool_reference(const float* input, const PoolShape& s, float* output, uint8_t* winner) {
  for_output_rows(s, false, [&](int64_t row) {
    for (int64_t column = 0; column < s.width / 2; ++column) {
      const Corners corners = corners_at(input, s, row, column);
      for (int64_t channel = 0; channel < s.channels; ++channel) {
        int index = 0;
        for (int k = 1; k < 4; ++k) {
          const float value = corners.c[k][channel];
          if (value > corners.c[index][channel] || value != value) index = k;
        }
        const float best = corners.c[index][channel];
        *output++ = best <= 0 ? 0 : best;
        *winner++ = best <= 0 ? kNobody : static_cast<uint8_t>(index);
      }
    }
  });
}

void relu_max_pool_backward_reference(const float* output_gradient, const uint8_t* winner, const PoolShape& s,
                                      float* input_gradient) {
  std::fill_n(input_gradient, s.samples * s.height * s.width * s.channels, 0.0F);
  for_output_rows(s, false, [&](int64_t row) {
    for (int64_t column = 0; column < s.width / 2; ++column) {
      const Corners corners = corners_at(input_gradient, s, row, column);
      for (int64_t channel = 0; channel < s.channels; ++channel, ++output_gradient, ++winner) {
        if (*winner != kNobody) input_gradient[corners.c[*winner] - input_gradient + channel] = *output_gradient;
      }
    }
  });
}

void rows_times_vector(const RowSelection& rows, const float* weight, float* output) {
  const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(1, rows.volume));
  at::parallel_for(0, rows.samples, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) output[i] = dot(rows[i], weight, rows.volume);
  });
}

void rows_times_vector_backward(const RowSelection& rows, const float* output_gradient, bool add, float* gradient) {
  // Each thread takes columns, so that there are no sums to merge, and every row is read once in all.
  const int64_t grain = std::max<int64_t>(64, 32768 / std::max<int64_t>(1, rows.samples));
  at::parallel_for(0, rows.volume, grain, [&](int64_t begin, int64_t end) {
    if (!add) std::fill(gradient + begin, gradient + end, 0.0F);
    for (int64_t i = 0; i < rows.samples; ++i) {
      add_scaled(rows[i] + begin, output_gradient[i], end - begin, gradient + begin);
    }
  });
}

}  // namespace mlbench::framework::torch_framework
