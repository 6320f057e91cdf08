#include "mlbench/base/sparse_rows.h"

#include <gtest/gtest.h>

#include <vector>

namespace mlbench {
namespace {

TEST(SparseRows, ABatchHasRowsOfAMatrixWhereTheyLie) {
  const std::vector<SparseEntry> entries = {{0, 0.5F}, {7, -1}, {3, 2}};
  const std::vector<int64_t> offsets = {0, 2, 2, 3}, rows = {2, 1, 0, 2}, fewer = {1};
  const SparseMatrix matrix{entries, offsets};
  BatchView batch;
  set_sparse_rows(batch, matrix, rows);
  ASSERT_EQ(batch.samples, 4);
  for (int64_t i = 0; i < 4; ++i) {
    const SparseRow row = sparse_row(batch, i), expected = matrix.row(rows[static_cast<size_t>(i)]);
    EXPECT_EQ(row.data(), expected.data()) << i;
    EXPECT_EQ(row.size(), expected.size()) << i;
  }
  EXPECT_EQ(sparse_row(batch, 0).front(), (SparseEntry{3, 2}));
  EXPECT_TRUE(sparse_row(batch, 1).empty());
  set_sparse_rows(batch, matrix, fewer);
  EXPECT_EQ(batch.samples, 1);
  EXPECT_EQ(batch.tensors.size(), 2U) << "the same two tensors again";
  EXPECT_TRUE(sparse_row(batch, 0).empty());
}

}  // namespace
}  // namespace mlbench
