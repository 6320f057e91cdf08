#include "mlbench/framework/product_kernels.h"

#include <array>
#include <utility>

#if defined(__x86_64__)

#include <immintrin.h>

#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512bw,avx512dq,fma")

namespace mlbench::framework::product_kernels {
namespace {

constexpr int64_t kLanes = 16;

__mmask16 first_lanes(int64_t count) { return static_cast<__mmask16>((1U << count) - 1U); }

__m512 low_pairs(__m512 a, __m512 b) {
  return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
__m512 high_pairs(__m512 a, __m512 b) {
  return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}

// to[j * step + i] = from[i * stride + j] of at most 16 x 16 values; `width` lanes of each row of `to` are written,
// zeros where there is no i.
void transpose_block(const float* from, int64_t stride, int64_t rows, int64_t columns, float* to, int64_t step,
                     int64_t width) {
  __m512 r[kLanes], t[kLanes];
  const __mmask16 wanted = first_lanes(columns);
  for (int64_t i = 0; i < kLanes; ++i) {
    r[i] = i < rows ? _mm512_maskz_loadu_ps(wanted, from + i * stride) : _mm512_setzero_ps();
  }
  for (int i = 0; i < 8; ++i) {
    t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
  for (int i = 0; i < 4; ++i) {
    r[4 * i] = low_pairs(t[4 * i], t[4 * i + 2]);
    r[4 * i + 1] = high_pairs(t[4 * i], t[4 * i + 2]);
    r[4 * i + 2] = low_pairs(t[4 * i + 1], t[4 * i + 3]);
    r[4 * i + 3] = high_pairs(t[4 * i + 1], t[4 * i + 3]);
  }
  // r[4 g + c] holds, in its quarter q, column 4 q + c of the rows 4 g to 4 g + 3.
  for (int c = 0; c < 4; ++c) {
    const __m512 low01 = _mm512_shuffle_f32x4(r[c], r[4 + c], 0x44),
                 high01 = _mm512_shuffle_f32x4(r[c], r[4 + c], 0xEE);
    const __m512 low23 = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0x44),
                 high23 = _mm512_shuffle_f32x4(r[8 + c], r[12 + c], 0xEE);
    t[c] = _mm512_shuffle_f32x4(low01, low23, 0x88);
    t[4 + c] = _mm512_shuffle_f32x4(low01, low23, 0xDD);
    t[8 + c] = _mm512_shuffle_f32x4(high01, high23, 0x88);
    t[12 + c] = _mm512_shuffle_f32x4(high01, high23, 0xDD);
  }
  const __mmask16 written = first_lanes(width);
  for (int64_t j = 0; j < columns; ++j) _mm512_mask_storeu_ps(to + j * step, written, t[j]);
}

// to[j * step + i] = from[i + j * stride], zeros for i from `count` to `width`.
void copy_block(const float* from, int64_t stride, int64_t count, int64_t inner, float* to, int64_t step,
                int64_t width) {
  const __mmask16 wanted = first_lanes(count), written = first_lanes(width);
  for (int64_t j = 0; j < inner; ++j) {
    _mm512_mask_storeu_ps(to + j * step, written, _mm512_maskz_loadu_ps(wanted, from + j * stride));
  }
}

// At most 16 of what stands across; they are `across` apart, and `along` from one to the next of the inner extent.
void pack(const float* from, int64_t across, int64_t along, int64_t count, int64_t inner, float* to, int64_t step,
          int64_t width) {
  if (across == 1) {
    copy_block(from, along, count, inner, to, step, width);
    return;
  }
  for (int64_t j = 0; j < inner; j += kLanes) {
    const int64_t columns = inner - j < kLanes ? inner - j : kLanes;
    transpose_block(from + j, across, count, columns, to + j * step, step, width);
  }
}

template <int kRows>
void tile(int64_t inner, const float* slice, const float* panel, float* c, int64_t stride, int64_t columns, bool add) {
  __m512 sums[kRows];
#pragma GCC unroll 24
  for (int r = 0; r < kRows; ++r) sums[r] = _mm512_setzero_ps();
  for (int64_t k = 0; k < inner; ++k) {
    const __m512 b = _mm512_load_ps(panel + k * kPanelColumns);
    _mm_prefetch(reinterpret_cast<const char*>(panel + (k + 16) * kPanelColumns), _MM_HINT_T0);
#pragma GCC unroll 24
    for (int r = 0; r < kRows; ++r) {
      sums[r] = _mm512_fmadd_ps(_mm512_set1_ps(slice[k * kRows + r]), b, sums[r]);
    }
  }
  const __mmask16 written = first_lanes(columns);
#pragma GCC unroll 24
  for (int r = 0; r < kRows; ++r) {
    float* const row = c + r * stride;
    const __m512 sum = add ? _mm512_add_ps(sums[r], _mm512_maskz_loadu_ps(written, row)) : sums[r];
    _mm512_mask_storeu_ps(row, written, sum);
  }
}

using Tile = void (*)(int64_t, const float*, const float*, float*, int64_t, int64_t, bool);

template <int... kRows>
constexpr std::array<Tile, sizeof...(kRows)> tiles(std::integer_sequence<int, kRows...>) {
  return {tile<kRows + 1>...};
}
constexpr auto kTiles = tiles(std::make_integer_sequence<int, kSliceRows>());

}  // namespace

bool available() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
}

void pack_slice(const View& a, int64_t rows, int64_t inner, float* slice) {
  for (int64_t first = 0; first < rows; first += kLanes) {
    const int64_t count = rows - first < kLanes ? rows - first : kLanes;
    pack(a.first + first * a.along_rows, a.along_rows, a.along_columns, count, inner, slice + first, rows, count);
  }
}

void pack_panel(const View& b, int64_t inner, int64_t columns, float* panel) {
  pack(b.first, b.along_columns, b.along_rows, columns, inner, panel, kPanelColumns, kPanelColumns);
}

void multiply_tile(int64_t rows, int64_t columns, int64_t inner, const float* slice, const float* panel, float* c,
                   int64_t stride, bool add) {
  kTiles[static_cast<size_t>(rows - 1)](inner, slice, panel, c, stride, columns, add);
}

}  // namespace mlbench::framework::product_kernels

#pragma GCC pop_options

#else

namespace mlbench::framework::product_kernels {

bool available() { return false; }
void pack_slice(const View&, int64_t, int64_t, float*) {}
void pack_panel(const View&, int64_t, int64_t, float*) {}
void multiply_tile(int64_t, int64_t, int64_t, const float*, const float*, float*, int64_t, bool) {}

}  // namespace mlbench::framework::product_kernels

#endif
