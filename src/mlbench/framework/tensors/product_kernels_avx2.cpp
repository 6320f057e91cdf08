#include <immintrin.h>

#include <array>
#include <utility>

#include "mlbench/framework/tensors/product_kernels.h"

namespace mlbench::framework::product_kernels {
namespace {

constexpr int64_t kLanes = 8;
constexpr int kSliceRows = 6;

__m256i first_lanes(int64_t count) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

__m256 load_first(const float* from, int64_t count) {
  return count == kLanes ? _mm256_loadu_ps(from) : _mm256_maskload_ps(from, first_lanes(count));
}

// Stores in parts, as masked stores take some processors dozens of cycles.
void store_first(float* to, __m256 value, int64_t count) {
  if (count == kLanes) return _mm256_storeu_ps(to, value);
  __m128 part = _mm256_castps256_ps128(value);
  if (count >= 4) {
    _mm_storeu_ps(to, part);
    part = _mm256_extractf128_ps(value, 1);
    to += 4;
  }
  if ((count & 2) != 0) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), part);
    part = _mm_movehl_ps(part, part);
    to += 2;
  }
  if ((count & 1) != 0) _mm_store_ss(to, part);
}

__m256 rounded_to_float16(__m256 value) { return _mm256_cvtph_ps(_mm256_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT)); }

// Computes t[j][i] = from[i * stride + j] for at most 8 x 8 values, with zeros where i is not below `rows`.
void transpose_block(const float* from, int64_t stride, int64_t rows, int64_t columns, __m256* t) {
  __m256 r[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) {
    r[i] = i < rows ? load_first(from + i * stride, columns) : _mm256_setzero_ps();
  }
  __m256 p[kLanes];
  for (int i = 0; i < 4; ++i) {
    p[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    p[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  // q[4 g + c] holds, in its half h, column 4 h + c of the rows 4 g to 4 g + 3.
  __m256 q[kLanes];
  for (int g = 0; g < 2; ++g) {
    q[4 * g] = _mm256_shuffle_ps(p[4 * g], p[4 * g + 2], 0x44);
    q[4 * g + 1] = _mm256_shuffle_ps(p[4 * g], p[4 * g + 2], 0xEE);
    q[4 * g + 2] = _mm256_shuffle_ps(p[4 * g + 1], p[4 * g + 3], 0x44);
    q[4 * g + 3] = _mm256_shuffle_ps(p[4 * g + 1], p[4 * g + 3], 0xEE);
  }
  for (int c = 0; c < 4; ++c) {
    t[c] = _mm256_permute2f128_ps(q[c], q[4 + c], 0x20);
    t[4 + c] = _mm256_permute2f128_ps(q[c], q[4 + c], 0x31);
  }
}

// Packs `count` (at most 8) rows of a left factor, or columns of a right one. `across` is the stride from one of these
// to the next, and `along` that along the inner extent. Packed rows have `width` values and are `step` apart.
void pack(Factors factors, const float* from, int64_t across, int64_t along, int64_t count, int64_t inner, float* to,
          int64_t step, int64_t width) {
  __m256 rows[kLanes];
  for (int64_t first = 0; first < inner; first += kLanes) {
    const int64_t some = inner - first < kLanes ? inner - first : kLanes;
    if (across == 1) {
      for (int64_t j = 0; j < some; ++j) rows[j] = load_first(from + (first + j) * along, count);
    } else {
      transpose_block(from + first, across, count, some, rows);
    }
    for (int64_t j = 0; j < some; ++j) {
      store_first(to + (first + j) * step, factors == Factors::kFloat16 ? rounded_to_float16(rows[j]) : rows[j], width);
    }
  }
}

template <int kRows>
void multiply(const Tile& tile) {
  __m256 sums[kRows][2];
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) sums[r][0] = sums[r][1] = _mm256_setzero_ps();
  const float *slice = tile.slice, *panel = tile.panel;
  const int64_t inner = tile.inner;
  for (int64_t k = 0; k < inner; ++k, slice += kRows, panel += kPanelColumns) {
    const __m256 right[2] = {_mm256_load_ps(panel), _mm256_load_ps(panel + kLanes)};
    _mm_prefetch(reinterpret_cast<const char*>(panel + 16 * kPanelColumns), _MM_HINT_T0);
#pragma GCC unroll 6
    for (int r = 0; r < kRows; ++r) {
      const __m256 left = _mm256_broadcast_ss(slice + r);
      sums[r][0] = _mm256_fmadd_ps(left, right[0], sums[r][0]);
      sums[r][1] = _mm256_fmadd_ps(left, right[1], sums[r][1]);
    }
  }
  const int64_t low = tile.columns < kLanes ? tile.columns : kLanes, high = tile.columns - low;
#pragma GCC unroll 6
  for (int r = 0; r < kRows; ++r) {
    float* const row = tile.c + r * tile.stride;
    if (tile.add) {
      sums[r][0] = _mm256_add_ps(sums[r][0], load_first(row, low));
      if (high > 0) sums[r][1] = _mm256_add_ps(sums[r][1], load_first(row + kLanes, high));
    }
    store_first(row, sums[r][0], low);
    if (high > 0) store_first(row + kLanes, sums[r][1], high);
  }
}

using Multiply = void (*)(const Tile&);

template <int... kRows>
constexpr std::array<Multiply, sizeof...(kRows)> by_rows(std::integer_sequence<int, kRows...>) {
  return {multiply<kRows + 1>...};
}
constexpr auto kTiles = by_rows(std::make_integer_sequence<int, kSliceRows>());

bool available(Factors factors) {
  // Each processor with AVX2 has F16C.
  return factors != Factors::kBFloat16 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}

void pack_slice(const View& a, int64_t rows, int64_t inner, Factors factors, float* slice) {
  pack(factors, a.first, a.along_rows, a.along_columns, rows, inner, slice, rows, rows);
}

void pack_panel(const View& b, int64_t inner, int64_t columns, Factors factors, float* panel) {
  for (int64_t first = 0; first < kPanelColumns; first += kLanes) {
    const int64_t rest = columns - first, count = rest < 0 ? 0 : rest < kLanes ? rest : kLanes;
    pack(factors, b.first + (count > 0 ? first : 0) * b.along_columns, b.along_columns, b.along_rows, count, inner,
         panel + first, kPanelColumns, kLanes);
  }
}

void multiply_tile(const Tile& tile, Factors) { kTiles[static_cast<size_t>(tile.rows - 1)](tile); }

}  // namespace

// Constant initialisation: no code of this file runs on a processor without AVX2.
constinit const Kernels kAvx2{"AVX2",    kSliceRows, 512,        16 * kSliceRows,
                              available, pack_slice, pack_panel, multiply_tile};

}  // namespace mlbench::framework::product_kernels
