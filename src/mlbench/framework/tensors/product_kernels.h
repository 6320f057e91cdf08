#pragma once

// The kernels behind products.h, for processors with AVX-512 or AVX2. They multiply blocks of matrices, packed in the
// order in which they are read, as Goto and van de Geijn describe ("Anatomy of high-performance matrix multiplication",
// 2008).

#include <cstdint>
#include <span>

namespace mlbench::framework::product_kernels {

// A matrix whose element (i, j) is at first + i * along_rows + j * along_columns. One of the two strides must be 1.
struct View {
  const float* first = nullptr;
  int64_t along_rows = 1, along_columns = 1;
  View at(int64_t row, int64_t column) const {
    return {first + row * along_rows + column * along_columns, along_rows, along_columns};
  }
};

// The type to which factors are rounded when they are packed. Sums are float32.
enum class Factors { kFloat32, kBFloat16, kFloat16 };

inline constexpr int kPanelColumns = 16;  // columns of one panel, and so of one tile

// The number of rows of a packed block with `inner` values of the inner extent. A float16 is packed as a rounded
// float32, so there are `inner` rows for float32 and float16. Two bfloat16 take the place of one float32, so there are
// half as many rows, rounded up.
inline int64_t packed_rows(int64_t inner, Factors factors) {
  return factors == Factors::kBFloat16 ? (inner + 1) / 2 : inner;
}

// One call of multiply_tile: c = slice panel, or with `add` c += slice panel. `c` has rows x columns values, whose rows
// are `stride` values apart.
struct Tile {
  int64_t rows = 0, columns = 0;
  int64_t inner = 0;  // packed rows
  const float *slice = nullptr, *panel = nullptr;
  float* c = nullptr;
  int64_t stride = 0;
  bool add = false;
};

// The kernels for one instruction set.
struct Kernels {
  const char* name;  // for the record
  int slice_rows;    // the most rows of one tile; their sums fit the registers
  // The extents of blocks. A panel of the right factor with `inner_block` packed rows stays in the first-level cache,
  // or comes from the second level as fast as it is multiplied. A block of the left factor with `row_block` rows (a
  // multiple of slice_rows) stays in the second-level cache.
  int64_t inner_block, row_block;
  // Whether the processor has the instructions that these factors need.
  bool (*available)(Factors factors);
  // Packs `rows` (at most slice_rows) rows of `a` into `slice`, [packed_rows][rows].
  void (*pack_slice)(const View& a, int64_t rows, int64_t inner, Factors factors, float* slice);
  // Packs `columns` (at most kPanelColumns) columns of `b` into `panel`, [packed_rows][kPanelColumns], with zeros after
  // the last column. `panel` must be aligned to 64 bytes.
  void (*pack_panel)(const View& b, int64_t inner, int64_t columns, Factors factors, float* panel);
  void (*multiply_tile)(const Tile& tile, Factors factors);
};

// The kernels in this program, the fastest first, whether or not the processor can run them.
std::span<const Kernels* const> all_kernels();

// ---- Each has a file of its own.
extern const Kernels kAvx512, kAvx2;

}  // namespace mlbench::framework::product_kernels
