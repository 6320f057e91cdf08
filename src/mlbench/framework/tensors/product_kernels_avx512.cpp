#include <cpuid.h>
#include <immintrin.h>

#include <array>
#include <utility>

#include "mlbench/framework/tensors/product_kernels.h"

namespace mlbench::framework::product_kernels {
namespace {

constexpr int64_t kLanes = 16;
constexpr int kSliceRows = 24;

__mmask16 first_lanes(int64_t count) { return static_cast<__mmask16>((1U << count) - 1U); }

__m512 low_pairs(__m512 a, __m512 b) {
  return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}
__m512 high_pairs(__m512 a, __m512 b) {
  return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(a), _mm512_castps_pd(b)));
}

// Each lane has the rounded value of `first` in its lower half, and that of `second` in its upper half.
__m512 bfloat16_pairs(__m512 first, __m512 second) {
  const __m512i low = _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(first)));
  const __m512i high = _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(second)));
  return _mm512_castsi512_ps(_mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
}

__m512 rounded_to_float16(__m512 value) { return _mm512_cvtph_ps(_mm512_cvtps_ph(value, _MM_FROUND_TO_NEAREST_INT)); }

// Writes `count` rows of values as packed rows, `step` apart. A last row without a partner is paired with zeros.
template <Factors kFactors>
void write_rows(const __m512* rows, int64_t count, __mmask16 written, float* to, int64_t step) {
  if constexpr (kFactors == Factors::kBFloat16) {
    for (int64_t j = 0; j < count; j += 2) {
      const __m512 second = j + 1 < count ? rows[j + 1] : _mm512_setzero_ps();
      _mm512_mask_storeu_ps(to + j / 2 * step, written, bfloat16_pairs(rows[j], second));
    }
  } else {
    for (int64_t j = 0; j < count; ++j) {
      const __m512 row = kFactors == Factors::kFloat16 ? rounded_to_float16(rows[j]) : rows[j];
      _mm512_mask_storeu_ps(to + j * step, written, row);
    }
  }
}

// Computes t[j][i] = from[i * stride + j] for at most 16 x 16 values, with zeros where i is not below `rows`.
void transpose_block(const float* from, int64_t stride, int64_t rows, int64_t columns, __m512* t) {
  __m512 r[kLanes];
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
}

// Packs `count` (at most 16) rows of a left factor, or columns of a right one. `across` is the stride from one of these
// to the next, and `along` that along the inner extent. Packed rows have `width` values and are `step` apart.
template <Factors kFactors>
void pack(const float* from, int64_t across, int64_t along, int64_t count, int64_t inner, float* to, int64_t step,
          int64_t width) {
  const __mmask16 wanted = first_lanes(count), written = first_lanes(width);
  __m512 rows[kLanes];
  for (int64_t first = 0; first < inner; first += kLanes) {
    const int64_t some = inner - first < kLanes ? inner - first : kLanes;
    if (across == 1) {
      for (int64_t j = 0; j < some; ++j) rows[j] = _mm512_maskz_loadu_ps(wanted, from + (first + j) * along);
    } else {
      transpose_block(from + first, across, count, some, rows);
    }
    write_rows<kFactors>(rows, some, written, to + packed_rows(first, kFactors) * step, step);
  }
}

template <Factors kFactors>
__m512 add_product(__m512 sum, const float* left, __m512 right) {
  if constexpr (kFactors == Factors::kBFloat16) {
    const __m512 both = _mm512_set1_ps(*left);
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(both), reinterpret_cast<__m512bh>(right));
  } else {
    return _mm512_fmadd_ps(_mm512_set1_ps(*left), right, sum);
  }
}

template <Factors kFactors, int kRows>
void multiply(const Tile& tile) {
  __m512 sums[kRows];
#pragma GCC unroll 24
  for (int r = 0; r < kRows; ++r) sums[r] = _mm512_setzero_ps();
  const float *slice = tile.slice, *panel = tile.panel;
  for (int64_t k = 0; k < tile.inner; ++k, slice += kRows, panel += kPanelColumns) {
    const __m512 right = _mm512_load_ps(panel);
    _mm_prefetch(reinterpret_cast<const char*>(panel + 16 * kPanelColumns), _MM_HINT_T0);
#pragma GCC unroll 24
    for (int r = 0; r < kRows; ++r) sums[r] = add_product<kFactors>(sums[r], slice + r, right);
  }
  const __mmask16 written = first_lanes(tile.columns);
#pragma GCC unroll 24
  for (int r = 0; r < kRows; ++r) {
    float* const row = tile.c + r * tile.stride;
    const __m512 sum = tile.add ? _mm512_add_ps(sums[r], _mm512_maskz_loadu_ps(written, row)) : sums[r];
    _mm512_mask_storeu_ps(row, written, sum);
  }
}

using Multiply = void (*)(const Tile&);

template <Factors kFactors, int... kRows>
constexpr std::array<Multiply, sizeof...(kRows)> by_rows(std::integer_sequence<int, kRows...>) {
  return {multiply<kFactors, kRows + 1>...};
}
constexpr auto kFloatTiles = by_rows<Factors::kFloat32>(std::make_integer_sequence<int, kSliceRows>());
constexpr auto kBFloat16Tiles = by_rows<Factors::kBFloat16>(std::make_integer_sequence<int, kSliceRows>());

void pack_as(Factors factors, const float* from, int64_t across, int64_t along, int64_t count, int64_t inner, float* to,
             int64_t step, int64_t width) {
  switch (factors) {
    case Factors::kFloat32:
      return pack<Factors::kFloat32>(from, across, along, count, inner, to, step, width);
    case Factors::kBFloat16:
      return pack<Factors::kBFloat16>(from, across, along, count, inner, to, step, width);
    case Factors::kFloat16:
      return pack<Factors::kFloat16>(from, across, along, count, inner, to, step, width);
  }
}

// Whether the processor has tiles of bfloat16 (AMX): bit 22 of EDX in leaf 7 of CPUID (Intel's manual, volume 2A).
// Clang 14 has no name for it. A virtual machine takes long to answer, so that it is asked once.
bool has_bfloat16_tiles() {
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d >> 22 & 1) != 0;
  }();
  return has;
}

bool available(Factors factors) {
  const bool all = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  // Where there are tiles of bfloat16, LibTorch's products use them.
  return all && (factors != Factors::kBFloat16 || (__builtin_cpu_supports("avx512bf16") && !has_bfloat16_tiles()));
}

void pack_slice(const View& a, int64_t rows, int64_t inner, Factors factors, float* slice) {
  for (int64_t first = 0; first < rows; first += kLanes) {
    const int64_t count = rows - first < kLanes ? rows - first : kLanes;
    pack_as(factors, a.first + first * a.along_rows, a.along_rows, a.along_columns, count, inner, slice + first, rows,
            count);
  }
}

void pack_panel(const View& b, int64_t inner, int64_t columns, Factors factors, float* panel) {
  pack_as(factors, b.first, b.along_columns, b.along_rows, columns, inner, panel, kPanelColumns, kPanelColumns);
}

void multiply_tile(const Tile& tile, Factors factors) {
  const auto& tiles = factors == Factors::kBFloat16 ? kBFloat16Tiles : kFloatTiles;
  tiles[static_cast<size_t>(tile.rows - 1)](tile);
}

}  // namespace

// Constant initialisation: no code of this file runs on a processor without AVX-512.
constinit const Kernels kAvx512{"AVX-512", kSliceRows, 448,        8 * kSliceRows,
                                available, pack_slice, pack_panel, multiply_tile};

}  // namespace mlbench::framework::product_kernels
