#pragma once

// What products.h does its work with on processors with AVX-512: blocks of matrices in the order in which they are
// read, as Goto and van de Geijn have it ("Anatomy of high-performance matrix multiplication", 2008).

#include <cstdint>

namespace mlbench::framework::product_kernels {

// Values at first + i * along_rows + j * along_columns; one of the two is 1.
struct View {
  const float* first = nullptr;
  int64_t along_rows = 1, along_columns = 1;
  View at(int64_t row, int64_t column) const {
    return {first + row * along_rows + column * along_columns, along_rows, along_columns};
  }
};

inline constexpr int kSliceRows = 24;     // most rows of one tile: as many sums fit the registers
inline constexpr int kPanelColumns = 16;  // of one tile: a register

// Whether the processor has what the rest needs.
bool available();

// `rows` (at most kSliceRows) of `a`, [inner][rows].
void pack_slice(const View& a, int64_t rows, int64_t inner, float* slice);
// `columns` (at most kPanelColumns) of `b`, [inner][kPanelColumns], zeros behind them. `panel`: a multiple of 64 bytes.
void pack_panel(const View& b, int64_t inner, int64_t columns, float* panel);
// c = slice panel, or c += it: rows x columns values, rows `stride` apart.
void multiply_tile(int64_t rows, int64_t columns, int64_t inner, const float* slice, const float* panel, float* c,
                   int64_t stride, bool add);

}  // namespace mlbench::framework::product_kernels
