// The layer lstm_sequence.

#include <memory>

#include "mlbench/base/errors.h"
#include "mlbench/framework/framework.h"
#include "mlbench/framework/native/graph/graph_layers.h"
#include "mlbench/framework/tensors/dropout.h"
#include "mlbench/framework/tensors/flat.h"
#include "mlbench/framework/tensors/lstm.h"

namespace mlbench::framework::native_framework {

namespace {

class LstmSequence final : public GraphLayer {
 public:
  LstmSequence(const models::LayerSpec& layer, size_t index, const GraphContext& context)
      : ih_(context.of(layer, "weight_ih")),
        hh_(context.of(layer, "weight_hh")),
        bias_ih_(context.of(layer, "bias_ih")),
        bias_hh_(context.of(layer, "bias_hh")),
        weight_dropout_(context.dropout ? layer.options.at("weight_dropout").get<double>() : 0),
        reverse_(layer.options.at("reverse").get<bool>()),
        carried_(layer.options.at("carried").get<bool>()),
        type_(context.product_type),
        index_(index),
        gradients_(context.gradients) {}

  GraphValue forward(const Inputs& inputs, const GraphPass& pass) override {
    const RowPlan& plan = *inputs[0]->plan;
    at::Tensor x = inputs[0]->data;
    if (reverse_) {
      turned_ = turned_rows(plan);
      x = x.index_select(0, turned_);
    }
    LayerState* state = state_of(pass);
    const int64_t sequences = plan.sequences();
    const bool goes_on = state != nullptr && !state->rows.empty();
    MLBENCH_CHECK(!goes_on || state->rows[0].size(0) == sequences, "a carried state of another number of sequences");
    const at::Tensor zeros = goes_on ? at::Tensor() : at::zeros({sequences, hh_.value.size(1)}, at::kFloat);
    mask_ = at::Tensor();
    if (weight_dropout_ > 0 && pass.training) {
      mask_ = at::empty(hh_.value.sizes(), at::kFloat);
      dropout_mask(pass.dropout_key(index_), weight_dropout_, values_of(mask_));
    }
    tape_ = lstm_forward(x, plan.lstm_rows(),
                         {ih_.value, mask_.defined() ? hh_.value * mask_ : hh_.value, bias_ih_.value, bias_hh_.value},
                         goes_on ? state->rows[0] : zeros, goes_on ? state->rows[1] : zeros, type_, true);
    if (state != nullptr) {
      MLBENCH_CHECK(plan.rows() == sequences * plan.positions, "a carried state of sequences of different lengths");
      state->rows = {tape_.states.narrow(0, plan.rows(), sequences).clone(),
                     tape_.cells.narrow(0, plan.rows(), sequences).clone()};
    }
    const at::Tensor y = tape_.output();
    return inputs[0]->with(reverse_ ? y.index_select(0, turned_) : y);
  }

  std::vector<at::Tensor> backward(const at::Tensor& dy, const std::vector<bool>& wanted) override {
    at::Tensor dx = lstm_backward(tape_, reverse_ ? dy.index_select(0, turned_) : dy, wanted[0], true);
    const at::Tensor d_bias = tape_.gates.sum(0);
    gradients_.contribute(bias_hh_.slot, [&](at::Tensor& to, bool add) { store(to, d_bias, add); });
    gradients_.contribute(bias_ih_.slot, [&](at::Tensor& to, bool add) { store(to, d_bias, add); });
    const at::Tensor d = framework::prepared(tape_.gates, type_).t(), before = tape_.before();
    gradients_.contribute(hh_.slot, [&](at::Tensor& to, bool add) {
      if (mask_.defined()) {
        store(to, framework::product(d, before, type_).mul_(mask_), add);
      } else {
        framework::multiply(to, d, before, add, type_);
      }
    });
    gradients_.contribute(ih_.slot, [&](at::Tensor& to, bool add) { framework::multiply(to, d, tape_.x, add, type_); });
    tape_ = {};
    std::vector<at::Tensor> found(wanted.size());
    if (wanted[0]) found[0] = reverse_ ? dx.index_select(0, turned_) : dx;
    return found;
  }

 private:
  LayerState* state_of(const GraphPass& pass) const {
    if (pass.decode != nullptr) return &pass.decode->states[index_];
    return carried_ && pass.carried != nullptr ? &(*pass.carried)[index_] : nullptr;
  }

  framework::Parameter ih_, hh_, bias_ih_, bias_hh_;
  double weight_dropout_;
  bool reverse_, carried_;
  at::ScalarType type_;
  size_t index_;
  GradientBuffer& gradients_;
  LstmTape tape_;
  at::Tensor mask_, turned_;
};

}  // namespace

std::unique_ptr<GraphLayer> make_lstm_sequence(const models::LayerSpec& layer, size_t index,
                                               const GraphContext& context) {
  return std::make_unique<LstmSequence>(layer, index, context);
}

}  // namespace mlbench::framework::native_framework
