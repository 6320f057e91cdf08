#include "mlbench/base/sparse_rows.h"

#include "mlbench/base/errors.h"

namespace mlbench {

namespace {

constexpr const char *kEntries = "entries", *kOffsets = "offsets";

// The tensor of that name, which is added where there is none yet.
BatchTensor& tensor_of(BatchView& batch, const char* name) {
  for (BatchTensor& tensor : batch.tensors) {
    if (tensor.name == name) return tensor;
  }
  return batch.tensors.emplace_back(BatchTensor{name, {}, {}, {}});
}

}  // namespace

void set_sparse_rows(BatchView& batch, const SparseMatrix& matrix, std::span<const int64_t> rows) {
  batch.samples = std::ssize(rows);
  BatchTensor& entries = tensor_of(batch, kEntries);
  entries.shape = {std::ssize(matrix.entries), sizeof(SparseEntry)};
  entries.values = {matrix.entries.data(), static_cast<int64_t>(matrix.entries.size_bytes()), DType::kUInt8};
  BatchTensor& offsets = tensor_of(batch, kOffsets);
  offsets.shape = {batch.samples};
  offsets.values = const_view_of(matrix.offsets);
  offsets.rows = rows;
}

SparseRow sparse_row(const BatchView& batch, int64_t sample) {
  const BatchTensor &entries = batch.at(kEntries), &offsets = batch.at(kOffsets);
  MLBENCH_CHECK(sample >= 0 && sample < std::ssize(offsets.rows), "a sample of the batch");
  const SparseMatrix matrix{
      {static_cast<const SparseEntry*>(entries.values.data),
       static_cast<size_t>(entries.values.count) / sizeof(SparseEntry)},
      {static_cast<const int64_t*>(offsets.values.data), static_cast<size_t>(offsets.values.count)}};
  return matrix.row(offsets.rows[static_cast<size_t>(sample)]);
}

}  // namespace mlbench
