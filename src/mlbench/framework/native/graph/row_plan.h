#pragma once

// Sequences of different lengths as rows of a matrix. What stands behind a sequence's end counts in nothing: it has no
// row, and is not computed.

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "mlbench/framework/tensors/lstm.h"

namespace mlbench::framework::native_framework {

// Which position of which sequence each row holds.
struct RowPlan {
  // Rows of attention lie sequence by sequence. Those of an LSTM by position: of position 0, of position 1, ..., the
  // longest sequences first (LstmRows).
  enum class Order { kBySequence, kByPosition };

  // `positions`: with padding.
  RowPlan(std::vector<int64_t> lengths, int64_t positions, Order order);

  int64_t rows() const { return static_cast<int64_t>(sequence.size()); }
  int64_t sequences() const { return static_cast<int64_t>(lengths.size()); }
  int64_t row_of(int64_t sequence, int64_t position) const;
  LstmRows lstm_rows() const;  // of order kByPosition

  std::vector<int64_t> lengths;
  int64_t positions = 0;
  Order order = Order::kBySequence;
  std::vector<int64_t> sequence, position;  // of each row
  std::vector<int64_t> first;               // row of each sequence, or of each position; and the number of rows
  std::vector<int64_t> ranked, rank;  // kByPosition: sequences by length, the longest first; and where each stands
};

// A value of a graph.
struct GraphValue {
  at::Tensor data;                      // float32 [rows, features]; ids int64 [rows]; lengths; a scalar
  std::shared_ptr<const RowPlan> plan;  // null: no sequences
  // What models/layer_kinds.h calls its extents: {positions, sequences, ...} or {sequences, positions, ...}.
  bool positions_first = false;

  // The number of a row's place in these extents, with padding.
  int64_t place(int64_t row) const {
    const int64_t s = plan->sequence[static_cast<size_t>(row)], t = plan->position[static_cast<size_t>(row)];
    return positions_first ? t * plan->sequences() + s : s * plan->positions + t;
  }
  // The same of each row, int64 [rows].
  at::Tensor places() const;
  GraphValue with(at::Tensor other) const { return {std::move(other), plan, positions_first}; }
};

// Rows of another order. `value` [rows, ...].
at::Tensor rearranged(const at::Tensor& value, const RowPlan& from, const RowPlan& to);
// [sequences, positions, features], zeros in the padding; and back.
at::Tensor padded(const at::Tensor& rows, const RowPlan& plan);
at::Tensor rows_of_padded(const at::Tensor& sequences, const RowPlan& plan);

}  // namespace mlbench::framework::native_framework
