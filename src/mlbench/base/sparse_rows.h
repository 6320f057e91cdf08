#pragma once

// Rows of a matrix of which only the values that are not zero are kept, and how a batch holds such rows.

#include <cstdint>
#include <span>

#include "mlbench/base/batch.h"

namespace mlbench {

// One value of a row. Column and value lie next to each other, so that a row is read as one stream.
struct SparseEntry {
  int32_t column = 0;  // from 0
  float value = 0;     // not 0
  bool operator==(const SparseEntry&) const = default;
};
static_assert(sizeof(SparseEntry) == 8, "files hold entries as they are");

using SparseRow = std::span<const SparseEntry>;  // with rising columns

// Compressed sparse rows: row r has the entries [offsets[r], offsets[r + 1]).
struct SparseMatrix {
  std::span<const SparseEntry> entries;
  std::span<const int64_t> offsets;  // [rows + 1]

  SparseRow row(int64_t number) const {
    const auto at = static_cast<size_t>(number);
    return entries.subspan(static_cast<size_t>(offsets[at]), static_cast<size_t>(offsets[at + 1] - offsets[at]));
  }
};

// Makes the samples of `batch` the rows `rows` of `matrix`, which stay where they are. The batch has them as two
// tensors of the whole matrix: "entries", uint8 [entries, 8], and "offsets", int64, gathered by `rows`.
void set_sparse_rows(BatchView& batch, const SparseMatrix& matrix, std::span<const int64_t> rows);
// The row of sample `sample` of a batch. Precondition: its samples are sparse rows.
SparseRow sparse_row(const BatchView& batch, int64_t sample);

}  // namespace mlbench
