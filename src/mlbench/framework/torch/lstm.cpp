#include "mlbench/framework/torch/lstm.h"

#include <optional>

#include "mlbench/framework/products.h"
#include "mlbench/framework/torch/lstm_kernels.h"
#include "mlbench/framework/torch/products.h"

namespace mlbench::framework::torch_framework {

namespace {

// From how many positions on the weight is worth its writing as its products read it.
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
      store_product(to, rows, weight_, add, type_);
    }
  }

 private:
  at::Tensor weight_;
  at::ScalarType type_;
  std::optional<RightFactor> packed_;
};

}  // namespace

LstmTape lstm_forward(const at::Tensor& x, const LstmWeights& weights, const at::Tensor& state, const at::Tensor& cell,
                      at::ScalarType product_type, bool on_host) {
  const int64_t positions = x.size(0), sequences = x.size(1), hidden = weights.hh.size(1);
  LstmTape tape;
  tape.x = prepared(x.contiguous(), product_type);
  tape.ih = prepared(weights.ih, product_type);
  tape.hh = weights.hh;
  tape.type = product_type;
  const at::Tensor rows = tape.x.view({positions * sequences, -1});
  const at::Tensor bias = weights.bias_ih + weights.bias_hh;
  at::Tensor sums = bias.expand({positions * sequences, 4 * hidden}).contiguous();
  store_product(sums, rows, tape.ih.t(), true, product_type);
  tape.gates = sums.view({positions, sequences, 4 * hidden});
  tape.states = at::empty({positions + 1, sequences, hidden}, x.options().dtype(at::kFloat));
  tape.cells = at::empty_like(tape.states);
  tape.states[0].copy_(state);
  tape.cells[0].copy_(cell);
  const Recurrence recurrence(tape.hh.t(), positions, product_type);
  for (int64_t t = 0; t < positions; ++t) {
    at::Tensor gates = tape.gates[t];
    recurrence.multiply(gates, tape.states[t], true);
    if (on_host) {
      lstm_cell({sequences, hidden}, gates.data_ptr<float>(), tape.cells[t].const_data_ptr<float>(),
                tape.cells[t + 1].data_ptr<float>(), tape.states[t + 1].data_ptr<float>());
    } else {
      lstm_cell_reference(gates, tape.cells[t], tape.cells[t + 1], tape.states[t + 1]);
    }
  }
  return tape;
}

at::Tensor lstm_backward(LstmTape& tape, const at::Tensor& d_output, bool input_wanted, bool on_host) {
  const int64_t positions = tape.gates.size(0), sequences = tape.gates.size(1), hidden = tape.states.size(2);
  at::Tensor d_cell = at::zeros_like(tape.cells[0]);
  const Recurrence recurrence(tape.hh, positions, tape.type);
  at::Tensor d_state = at::empty_like(d_cell), recurrent = at::zeros_like(d_cell);
  for (int64_t t = positions; t-- > 0;) {
    at::add_out(d_state, d_output[t], recurrent);
    at::Tensor gates = tape.gates[t];
    if (on_host) {
      lstm_cell_backward({sequences, hidden}, gates.data_ptr<float>(), tape.cells[t].const_data_ptr<float>(),
                         tape.cells[t + 1].const_data_ptr<float>(), d_state.const_data_ptr<float>(),
                         d_cell.data_ptr<float>());
    } else {
      lstm_cell_backward_reference(gates, tape.cells[t], tape.cells[t + 1], d_state, d_cell);
    }
    if (t == 0) break;
    recurrence.multiply(recurrent, gates, false);
  }
  if (!input_wanted) return {};
  const at::Tensor d_rows = prepared(tape.gates.view({positions * sequences, 4 * hidden}), tape.type);
  return product(d_rows, tape.ih, tape.type).view({positions, sequences, -1});
}

}  // namespace mlbench::framework::torch_framework
