#include "mlbench/framework/tensors/lstm.h"

#include <optional>
#include <vector>

#include "mlbench/framework/tensors/lstm_kernels.h"
#include "mlbench/framework/tensors/products.h"

namespace mlbench::framework {

namespace {

// The least number of positions for which packing the recurrent weight (RightFactor) pays.
constexpr int64_t kWorthPacking = 4;

// The states of one position times the recurrent weight, or its transpose.
class Recurrence {
 public:
  Recurrence(const at::Tensor& weight, int64_t positions, at::ScalarType type) : weight_(weight), type_(type) {
    if (positions >= kWorthPacking) packed_.emplace(weight, type);
  }
  void multiply(at::Tensor& to, const at::Tensor& rows, bool add) const {
    if (packed_) {
      packed_->multiply(to, rows, add);
    } else {
      framework::multiply(to, rows, weight_, add, type_);
    }
  }

 private:
  at::Tensor weight_;
  at::ScalarType type_;
  std::optional<RightFactor> packed_;
};

// Where the rows of position t are in the values of the tape.
struct LstmPosition {
  int64_t first = 0, count = 0;   // rows
  int64_t before = 0, state = 0;  // first row in states and cells: of one position earlier, and of this one
};

std::vector<LstmPosition> positions_of(const LstmRows& rows, int64_t sequences) {
  std::vector<LstmPosition> all;
  int64_t first = 0, before = 0;
  for (const int64_t count : rows.sequences) {
    all.push_back({first, count, before, sequences + first});
    before = sequences + first;
    first += count;
  }
  return all;
}

}  // namespace

at::Tensor LstmTape::before() const {
  const int64_t all = sequences();
  if (rows.sequences.back() == all) return states.narrow(0, 0, gates.size(0));
  std::vector<at::Tensor> parts;
  for (const LstmPosition& place : positions_of(rows, all))
    parts.push_back(states.narrow(0, place.before, place.count));
  return at::cat(parts);
}

LstmTape lstm_forward(const at::Tensor& x, const LstmRows& rows, const LstmWeights& weights, const at::Tensor& state,
                      const at::Tensor& cell, at::ScalarType product_type, bool on_host) {
  const int64_t sequences = state.size(0), hidden = weights.hh.size(1);
  LstmTape tape;
  tape.rows = rows;
  tape.x = prepared(x.contiguous(), product_type);
  tape.ih = prepared(weights.ih, product_type);
  tape.hh = weights.hh;
  tape.type = product_type;
  const at::Tensor bias = weights.bias_ih + weights.bias_hh;
  tape.gates = bias.expand({x.size(0), 4 * hidden}).contiguous();
  multiply(tape.gates, tape.x, tape.ih.t(), true, product_type);
  tape.states = at::empty({sequences + x.size(0), hidden}, x.options().dtype(at::kFloat));
  tape.cells = at::empty_like(tape.states);
  tape.states.narrow(0, 0, sequences).copy_(state);
  tape.cells.narrow(0, 0, sequences).copy_(cell);
  const Recurrence recurrence(tape.hh.t(), rows.positions(), product_type);
  for (const LstmPosition& place : positions_of(rows, sequences)) {
    at::Tensor gates = tape.gates.narrow(0, place.first, place.count);
    const at::Tensor before = tape.cells.narrow(0, place.before, place.count);
    at::Tensor cells = tape.cells.narrow(0, place.state, place.count),
               states = tape.states.narrow(0, place.state, place.count);
    recurrence.multiply(gates, tape.states.narrow(0, place.before, place.count), true);
    if (on_host) {
      lstm_cell({place.count, hidden}, gates.data_ptr<float>(), before.const_data_ptr<float>(), cells.data_ptr<float>(),
                states.data_ptr<float>());
    } else {
      lstm_cell_reference(gates, before, cells, states);
    }
  }
  return tape;
}

at::Tensor lstm_backward(LstmTape& tape, const at::Tensor& d_output, bool input_wanted, bool on_host) {
  const int64_t sequences = tape.sequences(), hidden = tape.states.size(1);
  const at::Tensor d_cells = at::zeros({sequences, hidden}, tape.states.options());
  const Recurrence recurrence(tape.hh, tape.rows.positions(), tape.type);
  const at::Tensor d_states = at::empty_like(d_cells), recurrents = at::zeros_like(d_cells);
  const std::vector<LstmPosition> positions = positions_of(tape.rows, sequences);
  for (size_t t = positions.size(); t-- > 0;) {
    const LstmPosition& place = positions[t];
    at::Tensor d_state = d_states.narrow(0, 0, place.count), recurrent = recurrents.narrow(0, 0, place.count);
    at::Tensor d_cell = d_cells.narrow(0, 0, place.count), gates = tape.gates.narrow(0, place.first, place.count);
    at::add_out(d_state, d_output.narrow(0, place.first, place.count), recurrent);
    const at::Tensor before = tape.cells.narrow(0, place.before, place.count),
                     cells = tape.cells.narrow(0, place.state, place.count);
    if (on_host) {
      lstm_cell_backward({place.count, hidden}, gates.data_ptr<float>(), before.const_data_ptr<float>(),
                         cells.const_data_ptr<float>(), d_state.const_data_ptr<float>(), d_cell.data_ptr<float>());
    } else {
      lstm_cell_backward_reference(gates, before, cells, d_state, d_cell);
    }
    if (t == 0) break;
    recurrence.multiply(recurrent, gates, false);
  }
  if (!input_wanted) return {};
  return product(prepared(tape.gates, tape.type), tape.ih, tape.type);
}

}  // namespace mlbench::framework
