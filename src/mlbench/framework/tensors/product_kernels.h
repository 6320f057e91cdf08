#pragma once

// What products.h does its work with on processors with AVX-512 or AVX2: blocks of matrices in the order in which they
// are read, as Goto and van de Geijn have it ("Anatomy of high-performance matrix multiplication", 2008).

#include <cstdint>
#include <span>

namespace mlbench::framework::product_kernels {

// Values at first + i * along_rows + j * along_columns; one of the two is 1.
struct View {
  const float* first = nullptr;
  int64_t along_rows = 1, along_columns = 1;
  View at(int64_t row, int64_t column) const {
    return {first + row * along_rows + column * along_columns, along_rows, along_columns};
  }
};

// What factors are rounded to when they are packed; sums are float32.
enum class Factors { kFloat32, kBFloat16, kFloat16 };

inline constexpr int kPanelColumns = 16;  // of one tile

// Of float32 and float16, which is a float32 after rounding, `inner`; of bfloat16, two of which take the place of one
// float32, half of it. What is packed has so many rows.
inline int64_t packed_rows(int64_t inner, Factors factors) {
  return factors == Factors::kBFloat16 ? (inner + 1) / 2 : inner;
}

// A slice, a panel, and c = slice panel or c += it: rows x columns values, rows `stride` apart.
struct Tile {
  int64_t rows = 0, columns = 0;
  int64_t inner = 0;  // packed rows
  const float *slice = nullptr, *panel = nullptr;
  float* c = nullptr;
  int64_t stride = 0;
  bool add = false;
};

// Of one instruction set.
struct Kernels {
  const char* name;  // for the record
  int slice_rows;    // most rows of one tile: as many sums fit the registers
  // Extents of blocks: a panel of the right factor, so long, stays in the first cache or comes from the second as fast
  // as it is multiplied; a block of the left one, a multiple of slice_rows high, stays in the second.
  int64_t inner_block, row_block;
  // Whether the processor has what these factors need.
  bool (*available)(Factors factors);
  // `rows` (at most slice_rows) of `a`, [packed_rows][rows].
  void (*pack_slice)(const View& a, int64_t rows, int64_t inner, Factors factors, float* slice);
  // `columns` (at most kPanelColumns) of `b`, [packed_rows][kPanelColumns], zeros behind them, at a multiple of 64
  // bytes.
  void (*pack_panel)(const View& b, int64_t inner, int64_t columns, Factors factors, float* panel);
  void (*multiply_tile)(const Tile& tile, Factors factors);
};

// Those of this program, the fastest first, whether the processor has them or not.
std::span<const Kernels* const> all_kernels();

// ---- one file each
extern const Kernels kAvx512, kAvx2;

}  // namespace mlbench::framework::product_kernels
