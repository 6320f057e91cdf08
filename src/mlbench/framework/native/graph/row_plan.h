#pragma once

// Sequences of different lengths as rows of a matrix. Positions after a sequence's end have no row, so they are not
// computed and count in nothing.

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "mlbench/framework/tensors/lstm.h"

namespace mlbench::framework::native_framework {

// Says which position of which sequence each row holds.
struct RowPlan {
  // The order of rows. Attention takes the rows sequence by sequence. An LSTM takes those of position 0, then those of
  // position 1, and so on, the longest sequence first (LstmRows).
  enum class Order { kBySequence, kByPosition };

  // `lengths` has one length per sequence, and `positions` is their common extent with padding. Fails MLBENCH_CHECK
  // where a length is larger.
  RowPlan(std::vector<int64_t> lengths, int64_t positions, Order order);

  int64_t rows() const { return static_cast<int64_t>(sequence.size()); }
  int64_t sequences() const { return static_cast<int64_t>(lengths.size()); }
  int64_t row_of(int64_t sequence, int64_t position) const;
  LstmRows lstm_rows() const;  // precondition: the order is kByPosition

  std::vector<int64_t> lengths;
  int64_t positions = 0;
  Order order = Order::kBySequence;
  std::vector<int64_t> sequence, position;  // one per row
  std::vector<int64_t> first;  // first row of each sequence or, kByPosition, of each position; then the number of rows
  std::vector<int64_t> ranked, rank;  // kByPosition: sequences, the longest first; and each one's place there
};

// A value of a graph, together with the meaning of its rows.
struct GraphValue {
  at::Tensor data;                      // float32 [rows, features]; ids, int64 [rows]; lengths; or a scalar
  std::shared_ptr<const RowPlan> plan;  // null: the value has no sequences
  // The order of extents in models/layer_kinds.h: {positions, sequences, ...}, or {sequences, positions, ...}.
  bool positions_first = false;

  // The index of a row in these extents, with padding, which dropout masks use.
  int64_t place(int64_t row) const {
    const int64_t s = plan->sequence[static_cast<size_t>(row)], t = plan->position[static_cast<size_t>(row)];
    return positions_first ? t * plan->sequences() + s : s * plan->positions + t;
  }
  // place() of each row, int64 [rows].
  at::Tensor places() const;
  GraphValue with(at::Tensor other) const { return {std::move(other), plan, positions_first}; }
};

// The rows of `value`, [rows, ...], in the order of another plan for the same sequences.
at::Tensor rearranged(const at::Tensor& value, const RowPlan& from, const RowPlan& to);
// padded() turns rows into [sequences, positions, features], with zeros in the padding. rows_of_padded() turns them
// back.
at::Tensor padded(const at::Tensor& rows, const RowPlan& plan);
at::Tensor rows_of_padded(const at::Tensor& sequences, const RowPlan& plan);

}  // namespace mlbench::framework::native_framework
