#include "mlbench/framework/native/graph/row_plan.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "mlbench/base/errors.h"

namespace mlbench::framework::native_framework {

namespace {

size_t at_index(int64_t i) { return static_cast<size_t>(i); }

// The place of each row in [sequences, positions].
at::Tensor places_by_sequence(const RowPlan& plan) {
  at::Tensor places = at::empty({plan.rows()}, at::kLong);
  auto* to = places.data_ptr<int64_t>();
  for (int64_t row = 0; row < plan.rows(); ++row) {
    to[row] = plan.sequence[at_index(row)] * plan.positions + plan.position[at_index(row)];
  }
  return places;
}

}  // namespace

RowPlan::RowPlan(std::vector<int64_t> lengths_of_sequences, int64_t all_positions, Order rows_order)
    : lengths(std::move(lengths_of_sequences)), positions(all_positions), order(rows_order) {
  for (const int64_t length : lengths) {
    MLBENCH_CHECK(length >= 0 && length <= positions, "a sequence that is longer than its batch");
  }
  const auto add = [this](int64_t s, int64_t t) {
    sequence.push_back(s);
    position.push_back(t);
  };
  if (order == Order::kBySequence) {
    for (int64_t s = 0; s < sequences(); ++s) {
      first.push_back(rows());
      for (int64_t t = 0; t < lengths[at_index(s)]; ++t) add(s, t);
    }
    first.push_back(rows());
    return;
  }
  ranked.resize(lengths.size());
  std::iota(ranked.begin(), ranked.end(), 0);
  std::ranges::stable_sort(ranked, std::greater(), [this](int64_t s) { return lengths[at_index(s)]; });
  rank.resize(lengths.size());
  for (size_t i = 0; i < ranked.size(); ++i) rank[at_index(ranked[i])] = static_cast<int64_t>(i);
  for (int64_t t = 0; t < positions; ++t) {
    first.push_back(rows());
    for (const int64_t s : ranked) {
      if (lengths[at_index(s)] > t) add(s, t);
    }
  }
  first.push_back(rows());
}

int64_t RowPlan::row_of(int64_t s, int64_t t) const {
  return order == Order::kBySequence ? first[at_index(s)] + t : first[at_index(t)] + rank[at_index(s)];
}

LstmRows RowPlan::lstm_rows() const {
  MLBENCH_CHECK(order == Order::kByPosition, "an LSTM over sequences whose positions come first");
  LstmRows result;
  for (int64_t t = 0; t < positions && first[at_index(t)] < rows(); ++t) {
    result.sequences.push_back(first[at_index(t + 1)] - first[at_index(t)]);
  }
  return result;
}

at::Tensor GraphValue::places() const {
  at::Tensor result = at::empty({plan->rows()}, at::kLong);
  for (int64_t row = 0; row < plan->rows(); ++row) result.data_ptr<int64_t>()[row] = place(row);
  return result;
}

at::Tensor rearranged(const at::Tensor& value, const RowPlan& from, const RowPlan& to) {
  at::Tensor index = at::empty({to.rows()}, at::kLong);
  for (int64_t row = 0; row < to.rows(); ++row) {
    index.data_ptr<int64_t>()[row] = from.row_of(to.sequence[at_index(row)], to.position[at_index(row)]);
  }
  return value.index_select(0, index);
}

at::Tensor padded(const at::Tensor& rows, const RowPlan& plan) {
  at::Tensor result = at::zeros({plan.sequences() * plan.positions, rows.size(1)}, rows.options());
  result.index_copy_(0, places_by_sequence(plan), rows);
  return result.view({plan.sequences(), plan.positions, rows.size(1)});
}

at::Tensor rows_of_padded(const at::Tensor& sequences, const RowPlan& plan) {
  return sequences.flatten(0, 1).index_select(0, places_by_sequence(plan));
}

}  // namespace mlbench::framework::native_framework
