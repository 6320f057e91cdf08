#include "mlbench/framework/tensors/row_plan.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "mlbench/base/errors.h"

namespace mlbench::framework {

namespace {

size_t at_index(int64_t i) { return static_cast<size_t>(i); }

// Values for each row: value(sequence, position), int64 [rows].
template <typename Value>
at::Tensor of_rows(const RowPlan& plan, const Value& value) {
  at::Tensor values = at::empty({plan.rows()}, at::kLong);
  auto* to = values.data_ptr<int64_t>();
  for (int64_t row = 0; row < plan.rows(); ++row) {
    to[row] = value(plan.sequence[at_index(row)], plan.position[at_index(row)]);
  }
  return values;
}

}  // namespace

RowPlan::RowPlan(std::vector<int64_t> lengths_of_sequences, int64_t all_positions, Order rows_order,
                 const at::Device& device)
    : lengths(std::move(lengths_of_sequences)), positions(all_positions), order(rows_order) {
  for (const int64_t length : lengths) {
    MLBENCH_CHECK(length >= 0 && length <= positions, "a sequence that is longer than its batch");
  }
  if (order == Order::kBySequence) {
    list_by_sequence();
  } else {
    list_by_position();
  }
  by_sequence = of_rows(*this, [this](int64_t s, int64_t t) { return s * positions + t; }).to(device);
  by_position = of_rows(*this, [this](int64_t s, int64_t t) { return t * sequences() + s; }).to(device);
}

void RowPlan::list_by_sequence() {
  for (int64_t s = 0; s < sequences(); ++s) {
    first.push_back(rows());
    for (int64_t t = 0; t < lengths[at_index(s)]; ++t) add_row(s, t);
  }
  first.push_back(rows());
}

void RowPlan::list_by_position() {
  ranked.resize(lengths.size());
  std::iota(ranked.begin(), ranked.end(), 0);
  std::ranges::stable_sort(ranked, std::greater(), [this](int64_t s) { return lengths[at_index(s)]; });
  rank.resize(lengths.size());
  for (size_t i = 0; i < ranked.size(); ++i) rank[at_index(ranked[i])] = static_cast<int64_t>(i);
  for (int64_t t = 0; t < positions; ++t) {
    first.push_back(rows());
    for (const int64_t s : ranked) {
      if (lengths[at_index(s)] > t) add_row(s, t);
    }
  }
  first.push_back(rows());
}

void RowPlan::add_row(int64_t s, int64_t t) {
  sequence.push_back(s);
  position.push_back(t);
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

at::Tensor rearranged(const at::Tensor& value, const RowPlan& from, const RowPlan& to) {
  const at::Tensor index = of_rows(to, [&](int64_t s, int64_t t) { return from.row_of(s, t); });
  return value.index_select(0, index.to(value.device()));
}

GraphValue transposed(const GraphValue& value) {
  GraphValue result = value;
  result.positions_first = !value.positions_first;
  if (value.data.scalar_type() != at::kLong) return result;
  const auto order = result.positions_first ? RowPlan::Order::kByPosition : RowPlan::Order::kBySequence;
  result.plan = std::make_shared<const RowPlan>(value.plan->lengths, value.plan->positions, order, value.data.device());
  result.data = rearranged(value.data, *value.plan, *result.plan);
  return result;
}

at::Tensor turned_rows(const RowPlan& plan) {
  return of_rows(plan, [&](int64_t s, int64_t t) { return plan.row_of(s, plan.lengths[at_index(s)] - 1 - t); })
      .to(plan.by_sequence.device());
}

at::Tensor padded(const at::Tensor& rows, const RowPlan& plan, bool positions_first) {
  const int64_t features = rows.size(1), outer = positions_first ? plan.positions : plan.sequences(),
                inner = positions_first ? plan.sequences() : plan.positions;
  if (plan.is_padded(positions_first)) return rows.view({outer, inner, features});
  const at::Tensor result = at::zeros({plan.sequences() * plan.positions, features}, rows.options());
  result.index_copy_(0, positions_first ? plan.by_position : plan.by_sequence, rows);
  return result.view({outer, inner, features});
}

at::Tensor rows_of_padded(const at::Tensor& sequences, const RowPlan& plan, bool positions_first) {
  const at::Tensor all = sequences.flatten(0, 1);
  if (plan.is_padded(positions_first)) return all;
  return all.index_select(0, positions_first ? plan.by_position : plan.by_sequence);
}

}  // namespace mlbench::framework
