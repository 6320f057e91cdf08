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

// [T, B]: the place of each position when its sequence is reversed. Padding keeps its place.
at::Tensor turned(int64_t positions, const at::Tensor& lengths) {
  const at::Tensor t = at::arange(positions, lengths.options()).unsqueeze(1);
  const at::Tensor length = lengths.unsqueeze(0);
  return at::where(t < length, length - 1 - t, t);
}

// Reverses sequences. Twice is the identity, and the gradient of reversing is reversing.
at::Tensor turn(const at::Tensor& x, const at::Tensor& places) {
  return x.gather(0, places.unsqueeze(2).expand(x.sizes()));
}

struct LstmSequence {
  Parameter ih, hh, bias_ih, bias_hh;
  double weight_dropout = 0;  // 0 where dropout is off
  bool reverse = false, carried = false, on_host = true;
  at::ScalarType type = at::kFloat;
  size_t index = 0;
  GradientBuffer* gradients = nullptr;

  at::Tensor operator()(const std::vector<at::Tensor>& inputs, GraphPass& pass) const {
    at::Tensor x = inputs[0].detach();
    const int64_t positions = x.size(0), sequences = x.size(1);
    const at::Tensor places = reverse ? turned(x.size(0), inputs[1]) : at::Tensor();
    if (reverse) x = turn(x, places);
    LayerState* state = state_of(pass);
    const at::Tensor zeros = at::zeros({x.size(1), hh.value.size(1)}, hh.value.options());
    const bool goes_on = state != nullptr && !state->rows.empty();
    MLBENCH_CHECK(!goes_on || state->rows[0].size(0) == x.size(1), "a carried state of another number of sequences");
    const at::Tensor mask = weight_dropout > 0 && pass.pass.training
                                ? dropout_mask_of(pass.pass, index, weight_dropout, hh.value.sizes(), x.device())
                                : at::Tensor();
    const at::Tensor start = goes_on ? state->rows[0] : zeros, start_cells = goes_on ? state->rows[1] : zeros;
    if (x.is_cuda()) return by_cudnn(inputs[0], places, mask, start, start_cells, state);
    const auto tape = std::make_shared<LstmTape>();
    const auto forward = [&] {
      const at::Tensor recurrent = mask.defined() ? hh.value * mask : hh.value;
      *tape = lstm_forward(x.flatten(0, 1), lstm_rows(positions, sequences),
                           {ih.value, recurrent, bias_ih.value, bias_hh.value}, start, start_cells, type, on_host);
      const at::Tensor output = tape->output().view({positions, sequences, -1});
      return reverse ? turn(output, places) : output.detach();
    };
    const LstmSequence self = *this;
    const at::Tensor output = differentiable_of_many(
        {inputs[0]}, forward, [=](const at::Tensor& dy, const std::vector<bool>& wanted) -> std::vector<at::Tensor> {
          const at::Tensor dx = self.backward(*tape, reverse_of(dy, places).flatten(0, 1), mask, wanted[0]);
          return {wanted[0] ? reverse_of(dx.view({positions, sequences, -1}), places) : dx};
        });
    if (state != nullptr) {
      const int64_t last = positions * sequences;
      state->rows = {tape->states.narrow(0, last, sequences).clone(), tape->cells.narrow(0, last, sequences).clone()};
    }
    return output;
  }

 private:
  // Computes all positions at once, by cuDNN.
  at::Tensor by_cudnn(const at::Tensor& input, const at::Tensor& places, const at::Tensor& mask,
                      const at::Tensor& start, const at::Tensor& start_cells, LayerState* state) const {
    const auto tape = std::make_shared<CudnnLstm>(hh.value.size(1), at::GradMode::is_enabled());
    const auto forward = [&] {
      tape->forward(reverse_of(input.detach(), places).to(type),
                    {ih.value, mask.defined() ? hh.value * mask : hh.value, bias_ih.value, bias_hh.value},
                    start.to(type), start_cells.to(type));
      if (state != nullptr) state->rows = {tape->last_state().to(at::kFloat), tape->last_cells().to(at::kFloat)};
      return reverse_of(tape->output().to(at::kFloat), places);
    };
    const LstmSequence self = *this;
    return differentiable_of_many(
        {input}, forward, [=](const at::Tensor& dy, const std::vector<bool>& wanted) -> std::vector<at::Tensor> {
          CudnnLstm::Gradients found = tape->backward(reverse_of(dy, places).to(self.type), wanted[0]);
          if (mask.defined()) found.weights[1] = found.weights[1].to(at::kFloat).mul_(mask);
          const Parameter* const parameters[] = {&self.ih, &self.hh, &self.bias_ih, &self.bias_hh};
          for (const size_t i : {3, 2, 1, 0}) {  // in the order of backward()
            self.gradients->contribute(parameters[i]->slot, [&](at::Tensor& to, bool add) {
              store(to, found.weights[i].to(at::kFloat), add);
            });
          }
          return {wanted[0] ? reverse_of(found.input.to(at::kFloat), places) : at::Tensor()};
        });
  }

  static at::Tensor reverse_of(const at::Tensor& x, const at::Tensor& places) {
    return places.defined() ? turn(x, places) : x;
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
