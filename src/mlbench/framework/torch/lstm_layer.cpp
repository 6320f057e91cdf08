// The layer lstm_sequence.

#include <memory>

#include "mlbench/base/errors.h"
#include "mlbench/framework/tensors/lstm.h"
#include "mlbench/framework/tensors/products.h"
#include "mlbench/framework/torch/cudnn_lstm.h"
#include "mlbench/framework/torch/differentiable.h"
#include "mlbench/framework/torch/graph_operations.h"
#include "mlbench/framework/torch/products.h"

namespace mlbench::framework::torch_framework {

namespace {

// Reverses sequences; `turned` are their turned_rows(). Undefined: nothing is reversed.
at::Tensor reverse_of(const at::Tensor& x, const at::Tensor& turned) {
  return turned.defined() ? x.index_select(0, turned) : x;
}

struct LstmSequence {
  Parameter ih, hh, bias_ih, bias_hh;
  double weight_dropout = 0;  // 0 where dropout is off
  bool reverse = false, carried = false, on_host = true;
  at::ScalarType type = at::kFloat;
  size_t index = 0;
  GradientBuffer* gradients = nullptr;

  GraphValue operator()(const std::vector<GraphValue>& inputs, GraphPass& pass) const {
    const GraphValue& input = inputs[0];
    const RowPlan& plan = *input.plan;
    const at::Tensor turned = reverse ? turned_rows(plan) : at::Tensor();
    LayerState* state = state_of(pass);
    const int64_t sequences = plan.sequences();
    const bool goes_on = state != nullptr && !state->rows.empty();
    MLBENCH_CHECK(!goes_on || state->rows[0].size(0) == sequences, "a carried state of another number of sequences");
    MLBENCH_CHECK(state == nullptr || plan.whole(), "a carried state of sequences of different lengths");
    const at::Tensor zeros = at::zeros({sequences, hh.value.size(1)}, hh.value.options());
    const at::Tensor mask = weight_dropout > 0 && pass.pass.training
                                ? dropout_mask_of(pass.pass, index, weight_dropout, hh.value.sizes(), zeros.device())
                                : at::Tensor();
    const at::Tensor start = goes_on ? state->rows[0] : zeros, start_cells = goes_on ? state->rows[1] : zeros;
    if (input.data.is_cuda()) return input.with(by_cudnn(input, turned, mask, start, start_cells, state));
    const auto tape = std::make_shared<LstmTape>();
    const auto forward = [&] {
      const at::Tensor recurrent = mask.defined() ? hh.value * mask : hh.value;
      *tape = lstm_forward(reverse_of(input.data.detach(), turned), plan.lstm_rows(),
                           {ih.value, recurrent, bias_ih.value, bias_hh.value}, start, start_cells, type, on_host);
      return reverse_of(tape->output().detach(), turned);
    };
    const LstmSequence self = *this;
    const at::Tensor output = differentiable(input.data, forward, [=](const at::Tensor& dy, bool input_wanted) {
      const at::Tensor dx = self.backward(*tape, reverse_of(dy, turned), mask, input_wanted);
      return input_wanted ? reverse_of(dx, turned) : dx;
    });
    if (state != nullptr) {
      state->rows = {tape->states.narrow(0, plan.rows(), sequences).clone(),
                     tape->cells.narrow(0, plan.rows(), sequences).clone()};
    }
    return input.with(output);
  }

 private:
  // Computes all positions at once, by cuDNN, whose sequences have padding.
  at::Tensor by_cudnn(const GraphValue& input, const at::Tensor& turned, const at::Tensor& mask,
                      const at::Tensor& start, const at::Tensor& start_cells, LayerState* state) const {
    const auto tape = std::make_shared<CudnnLstm>(hh.value.size(1), at::GradMode::is_enabled());
    const auto plan = input.plan;
    const auto spread = [=](const at::Tensor& rows) { return padded(reverse_of(rows, turned), *plan, true); };
    const auto gather = [=](const at::Tensor& all) {
      return reverse_of(rows_of_padded(all.to(at::kFloat), *plan, true), turned);
    };
    const auto forward = [&] {
      tape->forward(spread(input.data.detach()).to(type),
                    {ih.value, mask.defined() ? hh.value * mask : hh.value, bias_ih.value, bias_hh.value},
                    start.to(type), start_cells.to(type));
      if (state != nullptr) state->rows = {tape->last_state().to(at::kFloat), tape->last_cells().to(at::kFloat)};
      return gather(tape->output());
    };
    const LstmSequence self = *this;
    return differentiable(input.data, forward, [=](const at::Tensor& dy, bool input_wanted) {
      CudnnLstm::Gradients found = tape->backward(spread(dy).to(self.type), input_wanted);
      if (mask.defined()) found.weights[1] = found.weights[1].to(at::kFloat).mul_(mask);
      const Parameter* const parameters[] = {&self.ih, &self.hh, &self.bias_ih, &self.bias_hh};
      for (const size_t i : {3, 2, 1, 0}) {  // in the order of backward()
        self.gradients->contribute(parameters[i]->slot,
                                   [&](at::Tensor& to, bool add) { store(to, found.weights[i].to(at::kFloat), add); });
      }
      return input_wanted ? gather(found.input) : at::Tensor();
    });
  }

  LayerState* state_of(GraphPass& pass) const {
    if (pass.decode != nullptr) return &pass.decode->states[index];
    return carried && pass.carried != nullptr ? &(*pass.carried)[index] : nullptr;
  }

  // The backward pass. `dy` and the result are rows in the order of lstm.h.
  at::Tensor backward(LstmTape& tape, const at::Tensor& dy, const at::Tensor& mask, bool input_wanted) const {
    const at::Tensor dx = lstm_backward(tape, dy, input_wanted, on_host);
    const at::Tensor d_bias = tape.gates.sum(0);
    gradients->contribute(bias_hh.slot, [&](at::Tensor& to, bool add) { store(to, d_bias, add); });
    gradients->contribute(bias_ih.slot, [&](at::Tensor& to, bool add) { store(to, d_bias, add); });
    const at::Tensor d = prepared(tape.gates, type).t();
    const at::Tensor before = tape.before();
    gradients->contribute(hh.slot, [&](at::Tensor& to, bool add) {
      if (mask.defined()) {
        store(to, product(d, before, type).mul_(mask), add);
      } else {
        store_product(to, d, before, add, type);
      }
    });
    gradients->contribute(ih.slot, [&](at::Tensor& to, bool add) { store_product(to, d, tape.x, add, type); });
    return dx;
  }
};

}  // namespace

GraphOperation make_lstm_sequence(const models::LayerSpec& layer, size_t index, const BuildContext& context) {
  const auto parameter = [&](const char* role) { return context.parameter(models::parameter_name(layer, role)); };
  LstmSequence lstm;
  lstm.ih = parameter("weight_ih");
  lstm.hh = parameter("weight_hh");
  lstm.bias_ih = parameter("bias_ih");
  lstm.bias_hh = parameter("bias_hh");
  lstm.weight_dropout = context.dropout ? layer.options.at("weight_dropout").get<double>() : 0;
  lstm.reverse = layer.options.at("reverse").get<bool>();
  lstm.carried = layer.options.at("carried").get<bool>();
  lstm.on_host = context.on_host;
  lstm.type = context.product_type;
  lstm.index = index;
  lstm.gradients = &context.gradients;
  return lstm;
}

}  // namespace mlbench::framework::torch_framework
