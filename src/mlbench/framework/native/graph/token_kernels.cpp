#include "mlbench/framework/native/graph/token_kernels.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <vector>

#include "mlbench/base/vector_clones.h"
#include "mlbench/framework/tensors/dropout.h"

namespace mlbench::framework::native_framework {

namespace {

MLBENCH_VECTOR_CLONES
void finish_row(int64_t count, const float* __restrict bias, bool relu, const float* __restrict mask,
                float* __restrict y) {
  if (bias != nullptr) {
    for (int64_t j = 0; j < count; ++j) y[j] += bias[j];
  }
  if (relu) {
    // NaN passes.
    for (int64_t j = 0; j < count; ++j) y[j] = y[j] < 0 ? 0 : y[j];
  }
  if (mask != nullptr) {
    for (int64_t j = 0; j < count; ++j) y[j] *= mask[j];
  }
}

MLBENCH_VECTOR_CLONES
void finish_row_backward(int64_t count, const float* __restrict y, float scale, const float* __restrict dy,
                         float* __restrict dx) {
  for (int64_t j = 0; j < count; ++j) dx[j] = y[j] != 0 ? scale * dy[j] : 0;
}

MLBENCH_VECTOR_CLONES
void add_row(int64_t count, const float* __restrict x, const float* __restrict y, const float* __restrict mask,
             float* __restrict z) {
  if (x != nullptr && mask != nullptr) {
    for (int64_t j = 0; j < count; ++j) z[j] = x[j] + mask[j] * y[j];
  } else if (mask != nullptr) {
    for (int64_t j = 0; j < count; ++j) z[j] = mask[j] * y[j];
  } else if (x != nullptr) {
    for (int64_t j = 0; j < count; ++j) z[j] = x[j] + y[j];
  } else {
    std::copy_n(y, count, z);
  }
}

MLBENCH_VECTOR_CLONES
void scale_row(int64_t count, const float* __restrict x, float scale, float* __restrict y) {
  for (int64_t j = 0; j < count; ++j) y[j] = scale * x[j];
}

MLBENCH_VECTOR_CLONES
void add_scaled_row(int64_t count, const float* __restrict x, float scale, float* __restrict y) {
  for (int64_t j = 0; j < count; ++j) y[j] += scale * x[j];
}

// Calls body(row, mask) for each row, where `mask` is that of the row, or null.
template <typename Body>
void for_masked_rows(const Rows& rows, const RowMask& mask, const Body& body) {
  const int64_t grain = std::max<int64_t>(1, 8192 / std::max<int64_t>(1, rows.features));
  at::parallel_for(0, rows.count, grain, [&](int64_t begin, int64_t end) {
    std::vector<float> values(static_cast<size_t>(mask.p > 0 ? rows.features : 0));
    for (int64_t row = begin; row < end; ++row) {
      if (mask.p > 0) dropout_mask_part(mask.key, mask.p, mask.places[row] * rows.features, values);
      body(row, mask.p > 0 ? values.data() : nullptr);
    }
  });
}

}  // namespace

void finish_linear(const Rows& rows, const float* bias, bool relu, const RowMask& mask, float* y) {
  for_masked_rows(rows, mask, [&](int64_t row, const float* of_row) {
    finish_row(rows.features, bias, relu, of_row, y + row * rows.features);
  });
}

void finish_linear_backward(const Rows& rows, const float* y, double p, const float* dy, float* dx) {
  const auto scale = static_cast<float>(1 / (1 - p));
  for_masked_rows(rows, {}, [&](int64_t row, const float*) {
    const int64_t at = row * rows.features;
    finish_row_backward(rows.features, y + at, scale, dy + at, dx + at);
  });
}

void add_dropped(const Rows& rows, const float* x, const float* y, const RowMask& mask, float* z) {
  for_masked_rows(rows, mask, [&](int64_t row, const float* of_row) {
    const int64_t at = row * rows.features;
    add_row(rows.features, x != nullptr ? x + at : nullptr, y + at, of_row, z + at);
  });
}

void share_out(int64_t count, const std::function<void(int64_t)>& body) {
  at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) body(i);
  });
}

void gather_rows(const Rows& rows, const float* table, const int64_t* ids, float scale, const float* factors,
                 float* y) {
  for_masked_rows(rows, {}, [&](int64_t row, const float*) {
    const float factor = factors != nullptr ? scale * factors[ids[row]] : scale;
    scale_row(rows.features, table + ids[row] * rows.features, factor, y + row * rows.features);
  });
}

void scatter_rows(const Rows& rows, const float* dy, const int64_t* ids, float scale, const float* factors,
                  float* gradient) {
  // Each thread takes columns, as an id may stand in several rows.
  at::parallel_for(0, rows.features, 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < rows.count; ++row) {
      const float factor = factors != nullptr ? scale * factors[ids[row]] : scale;
      add_scaled_row(end - begin, dy + row * rows.features + begin, factor,
                     gradient + ids[row] * rows.features + begin);
    }
  });
}

}  // namespace mlbench::framework::native_framework
