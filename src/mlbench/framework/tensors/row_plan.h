#pragma once

// Sequences of different lengths as rows of a matrix. Positions after a sequence's end have no row, so they are not
// computed and count in nothing.

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "mlbench/framework/tensors/lstm.h"

namespace mlbench::framework {

// Says which position of which sequence each row holds.
struct RowPlan {
  // The order of rows. Attention takes the rows sequence by sequence. An LSTM takes those of position 0, then those of
  // position 1, and so on, the longest sequence first (LstmRows).
  enum class Order { kBySequence, kByPosition };

  // `lengths` has one length per sequence, and `positions` is their common extent with padding. The plan's tensors are
  // on `device`. Fails MLBENCH_CHECK where a length is larger.
  RowPlan(std::vector<int64_t> lengths, int64_t positions, Order order, const at::Device& device = at::kCPU);

  int64_t rows() const { return static_cast<int64_t>(sequence.size()); }
  int64_t sequences() const { return static_cast<int64_t>(lengths.size()); }
  int64_t row_of(int64_t sequence, int64_t position) const;
  LstmRows lstm_rows() const;                                       // precondition: the order is kByPosition
  bool whole() const { return rows() == sequences() * positions; }  // there is no padding
  // Whether the rows are [sequences, positions] in order or, with `positions_first`, [positions, sequences].
  bool is_padded(bool positions_first) const { return whole() && positions_first == (order == Order::kByPosition); }

  std::vector<int64_t> lengths;
  int64_t positions = 0;
  Order order = Order::kBySequence;
  std::vector<int64_t> sequence, position;  // one per row
  std::vector<int64_t> first;  // first row of each sequence or, kByPosition, of each position; then the number of rows
  std::vector<int64_t> ranked, rank;  // kByPosition: sequences, the longest first; and each one's place there
  // The place of each row in [sequences, positions] and in [positions, sequences], int64 [rows].
  at::Tensor by_sequence, by_position;

 private:
  void list_by_sequence();
  void list_by_position();
  void add_row(int64_t sequence, int64_t position);
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
  const at::Tensor& places() const { return positions_first ? plan->by_position : plan->by_sequence; }
  // The elements of `all`, a tensor of these extents, that belong to the rows.
  at::Tensor of_rows(const at::Tensor& all) const { return all.flatten().index_select(0, places()); }
  GraphValue with(at::Tensor other) const { return {std::move(other), plan, positions_first}; }
};

// The rows of `value`, [rows, ...], in the order of another plan for the same sequences.
at::Tensor rearranged(const at::Tensor& value, const RowPlan& from, const RowPlan& to);
// Exchanges the first two extents. Ids move into the order of rows of their new extents; other values stay in theirs,
// since only LSTMs and attention, which come after embeddings, depend on the order of rows.
GraphValue transposed(const GraphValue& value);
// For each row, the row that holds its position when every sequence is reversed. Reversing twice is the identity, and
// the gradient of reversing is reversing.
at::Tensor turned_rows(const RowPlan& plan);
// padded() turns rows into [sequences, positions, features], with zeros in the padding. rows_of_padded() turns them
// back. With `positions_first`, the extents are [positions, sequences, features]. Where the plan is_padded(), the
// result is a view. Each function is the gradient of the other.
at::Tensor padded(const at::Tensor& rows, const RowPlan& plan, bool positions_first = false);
at::Tensor rows_of_padded(const at::Tensor& sequences, const RowPlan& plan, bool positions_first = false);

}  // namespace mlbench::framework
