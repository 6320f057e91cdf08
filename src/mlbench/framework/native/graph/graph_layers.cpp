#include "mlbench/framework/native/graph/graph_layers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/framework/framework.h"
#include "mlbench/framework/tensors/dropout.h"
#include "mlbench/framework/tensors/flat.h"

namespace mlbench::framework::native_framework {

namespace {

Rows rows_of(const at::Tensor& x) { return {x.size(0), x.size(1)}; }
const float* values_at(const at::Tensor& x) { return x.const_data_ptr<float>(); }
float* values_to(const at::Tensor& x) { return x.data_ptr<float>(); }

// Dropout of what a layer computes. The mask depends on `layer`, the number of the dropout layer in the model's
// description.
class DropoutOf {
 public:
  DropoutOf() = default;
  DropoutOf(size_t layer, double p) : layer_(layer), p_(p) {}
  // Begins a forward pass over the rows of `value`; mask() is that of this pass until the next call.
  void begin(const GraphPass& pass, const GraphValue& value) {
    active_ = pass.training && p_ > 0;
    if (!active_) return;
    key_ = pass.dropout_key(layer_);
    places_ = value.places();
  }
  RowMask mask() const { return active_ ? RowMask{key_, p_, places_.const_data_ptr<int64_t>()} : RowMask(); }

 private:
  size_t layer_ = 0;
  double p_ = 0;
  bool active_ = false;
  uint64_t key_ = 0;
  at::Tensor places_;
};

DropoutOf dropout_of(const models::LayerSpec& layer, size_t index, const GraphContext& context) {
  return {index, context.dropout ? layer.options.at("p").get<double>() : 0};
}

class EmbeddingLayer final : public GraphLayer {
 public:
  EmbeddingLayer(const models::LayerSpec& layer, size_t index, const GraphContext& context)
      : weight_(context.of(layer, "weight")),
        scale_(layer.options.at("scale").get<float>()),
        row_dropout_(context.dropout ? layer.options.at("row_dropout").get<double>() : 0),
        index_(index),
        gradients_(context.gradients) {}

  GraphValue forward(const Inputs& inputs, const GraphPass& pass) override {
    ids_ = inputs[0]->data;
    factors_ = at::Tensor();
    if (pass.training && row_dropout_ > 0) {
      factors_ = at::empty({weight_.value.size(0)}, at::kFloat);
      dropout_mask(pass.dropout_key(index_), row_dropout_, values_of(factors_));
    }
    const at::Tensor y = at::empty({ids_.size(0), weight_.value.size(1)}, at::kFloat);
    gather_rows(rows_of(y), values_at(weight_.value), ids_.const_data_ptr<int64_t>(), scale_, factors(), values_to(y));
    return inputs[0]->with(y);
  }

  std::vector<at::Tensor> backward(const at::Tensor& dy, const std::vector<bool>&) override {
    gradients_.contribute(weight_.slot, [&](at::Tensor& to, bool add) {
      if (!add) to.zero_();
      scatter_rows(rows_of(dy), values_at(dy), ids_.const_data_ptr<int64_t>(), scale_, factors(), values_to(to));
    });
    return std::vector<at::Tensor>(1);
  }

 private:
  const float* factors() const { return factors_.defined() ? values_at(factors_) : nullptr; }

  framework::Parameter weight_;
  float scale_;
  double row_dropout_;
  size_t index_;
  GradientBuffer& gradients_;
  at::Tensor ids_, factors_;
};

class TransposeLayer final : public GraphLayer {
 public:
  GraphValue forward(const Inputs& inputs, const GraphPass&) override { return transposed(*inputs[0]); }
  std::vector<at::Tensor> backward(const at::Tensor& dy, const std::vector<bool>&) override { return {dy}; }
};

class PositionsLayer final : public GraphLayer {
 public:
  GraphValue forward(const Inputs& inputs, const GraphPass& pass) override {
    const at::Tensor& x = inputs[0]->data;
    const RowPlan& plan = *inputs[0]->plan;
    const int64_t first = pass.decode != nullptr ? pass.decode->position : 0, features = x.size(1);
    while (static_cast<int64_t>(table_.size()) < (first + plan.positions) * features) append(features);
    const at::Tensor y = at::empty_like(x);
    for (int64_t row = 0; row < plan.rows(); ++row) {
      const auto position = static_cast<size_t>(first + plan.position[static_cast<size_t>(row)]);
      add_dropped({1, features}, values_at(x) + row * features,
                  table_.data() + position * static_cast<size_t>(features), {}, values_to(y) + row * features);
    }
    return inputs[0]->with(y);
  }
  std::vector<at::Tensor> backward(const at::Tensor& dy, const std::vector<bool>&) override { return {dy}; }

 private:
  // Appends the row of P (models/layer_kinds.h) for the next position.
  void append(int64_t features) {
    const int64_t row = static_cast<int64_t>(table_.size()) / features;
    const auto t = static_cast<double>(row);
    for (int64_t j = 0; j < features; ++j) {
      const double angle = t * std::pow(10000.0, -static_cast<double>(j - j % 2) / static_cast<double>(features));
      table_.push_back(static_cast<float>(j % 2 == 0 ? std::sin(angle) : std::cos(angle)));
    }
  }
  std::vector<float> table_;
};

class LayerNormLayer final : public GraphLayer {
 public:
  LayerNormLayer(const models::LayerSpec& layer, size_t, const GraphContext& context)
      : weight_(context.of(layer, "weight")),
        bias_(context.of(layer, "bias")),
        eps_(layer.options.at("eps").get<double>()),
        gradients_(context.gradients) {}

  GraphValue forward(const Inputs& inputs, const GraphPass&) override {
    x_ = inputs[0]->data;
    at::Tensor y;
    std::tie(y, mean_, inv_std_) = at::native_layer_norm(x_, {x_.size(1)}, weight_.value, bias_.value, eps_);
    return inputs[0]->with(y);
  }

  std::vector<at::Tensor> backward(const at::Tensor& dy, const std::vector<bool>& wanted) override {
    auto [dx, dw, db] = at::native_layer_norm_backward(dy, x_, {x_.size(1)}, mean_, inv_std_, weight_.value,
                                                       bias_.value, {wanted[0], true, true});
    gradients_.contribute(bias_.slot, [&, &db = db](at::Tensor& to, bool add) { store(to, db, add); });
    gradients_.contribute(weight_.slot, [&, &dw = dw](at::Tensor& to, bool add) { store(to, dw, add); });
    return {dx};
  }

 private:
  framework::Parameter weight_, bias_;
  double eps_;
  GradientBuffer& gradients_;
  at::Tensor x_, mean_, inv_std_;
};

// Computes x + dropout(y), or x + y.
class AddLayer final : public GraphLayer {
 public:
  explicit AddLayer(DropoutOf dropout = {}) : dropout_(std::move(dropout)) {}

  GraphValue forward(const Inputs& inputs, const GraphPass& pass) override {
    dropout_.begin(pass, *inputs[1]);
    const at::Tensor &x = inputs[0]->data, &y = inputs[1]->data, z = at::empty_like(x);
    MLBENCH_CHECK(x.sizes() == y.sizes(), "a sum of values of different sizes");
    add_dropped(rows_of(x), values_at(x), values_at(y), dropout_.mask(), values_to(z));
    return inputs[0]->with(z);
  }

  std::vector<at::Tensor> backward(const at::Tensor& dy, const std::vector<bool>& wanted) override {
    if (!wanted[1] || dropout_.mask().p == 0) return {dy, dy};
    const at::Tensor dropped = at::empty_like(dy);
    add_dropped(rows_of(dy), nullptr, values_at(dy), dropout_.mask(), values_to(dropped));
    return {dy, dropped};
  }

 private:
  DropoutOf dropout_;
};

class DropoutLayer final : public GraphLayer {
 public:
  DropoutLayer(const models::LayerSpec& layer, size_t index, const GraphContext& context)
      : dropout_(dropout_of(layer, index, context)) {}

  GraphValue forward(const Inputs& inputs, const GraphPass& pass) override {
    dropout_.begin(pass, *inputs[0]);
    return inputs[0]->with(dropped(inputs[0]->data));
  }
  std::vector<at::Tensor> backward(const at::Tensor& dy, const std::vector<bool>&) override { return {dropped(dy)}; }

 private:
  at::Tensor dropped(const at::Tensor& x) const {
    if (dropout_.mask().p == 0) return x;
    const at::Tensor y = at::empty_like(x);
    add_dropped(rows_of(x), nullptr, values_at(x), dropout_.mask(), values_to(y));
    return y;
  }
  DropoutOf dropout_;
};

// Dropout with one mask for all positions of a sequence.
class LockedDropoutLayer final : public GraphLayer {
 public:
  LockedDropoutLayer(const models::LayerSpec& layer, size_t index, const GraphContext& context)
      : p_(context.dropout ? layer.options.at("p").get<double>() : 0), index_(index) {}

  GraphValue forward(const Inputs& inputs, const GraphPass& pass) override {
    mask_ = at::Tensor();
    const at::Tensor& x = inputs[0]->data;
    if (p_ == 0 || !pass.training) return *inputs[0];
    const RowPlan& plan = *inputs[0]->plan;
    at::Tensor mask = at::empty({plan.sequences(), x.size(1)}, at::kFloat);
    dropout_mask(pass.dropout_key(index_), p_, values_of(mask));
    mask_ = mask.index_select(0, at::tensor(plan.sequence));
    return inputs[0]->with(x * mask_);
  }
  std::vector<at::Tensor> backward(const at::Tensor& dy, const std::vector<bool>&) override {
    return {mask_.defined() ? dy * mask_ : dy};
  }

 private:
  double p_;
  size_t index_;
  at::Tensor mask_;
};

class ConcatLayer final : public GraphLayer {
 public:
  GraphValue forward(const Inputs& inputs, const GraphPass&) override {
    left_ = inputs[0]->data.size(1);
    return inputs[0]->with(at::cat({inputs[0]->data, inputs[1]->data}, 1));
  }
  std::vector<at::Tensor> backward(const at::Tensor& dy, const std::vector<bool>&) override {
    return {dy.narrow(1, 0, left_).contiguous(), dy.narrow(1, left_, dy.size(1) - left_).contiguous()};
  }

 private:
  int64_t left_ = 0;
};

class ReluLayer final : public GraphLayer {
 public:
  GraphValue forward(const Inputs& inputs, const GraphPass&) override {
    y_ = inputs[0]->data.clone();
    finish_linear(rows_of(y_), nullptr, true, {}, values_to(y_));
    return inputs[0]->with(y_);
  }
  std::vector<at::Tensor> backward(const at::Tensor& dy, const std::vector<bool>&) override {
    const at::Tensor dx = at::empty_like(dy);
    finish_linear_backward(rows_of(dy), values_at(y_), 0, values_at(dy), values_to(dx));
    return {dx};
  }

 private:
  at::Tensor y_;
};

struct AfterLinear {
  bool relu = false;
  DropoutOf dropout;
};

// Computes dropout(relu(x W' + b)), or a part of this without dropout, ReLU or bias.
class LinearLayer final : public GraphLayer {
 public:
  LinearLayer(const models::LayerSpec& layer, size_t, const GraphContext& context, AfterLinear after = {})
      : product_(context.of(layer, "weight"), context.product_type),
        after_(std::move(after)),
        gradients_(context.gradients) {
    if (layer.options.value("bias", true)) bias_ = context.of(layer, "bias");
  }

  GraphValue forward(const Inputs& inputs, const GraphPass& pass) override {
    product_.begin(pass);
    after_.dropout.begin(pass, *inputs[0]);
    x_ = product_.prepared(inputs[0]->data);
    const at::Tensor y = product_.output(x_);
    const RowMask mask = after_.dropout.mask();
    if (bias_.value.defined() || after_.relu || mask.p > 0) {
      finish_linear(rows_of(y), bias_.value.defined() ? values_at(bias_.value) : nullptr, after_.relu, mask,
                    values_to(y));
    }
    if (after_.relu) y_ = y;
    return inputs[0]->with(y);
  }

  std::vector<at::Tensor> backward(const at::Tensor& gradient, const std::vector<bool>& wanted) override {
    at::Tensor dy = gradient;
    if (after_.relu) {
      dy = at::empty_like(gradient);
      finish_linear_backward(rows_of(dy), values_at(y_), after_.dropout.mask().p, values_at(gradient), values_to(dy));
      y_ = at::Tensor();
    }
    if (bias_.value.defined()) {
      gradients_.contribute(bias_.slot, [&](at::Tensor& to, bool add) { store(to, dy.sum(0), add); });
    }
    const at::Tensor d = product_.prepared(dy);
    gradients_.contribute(product_.slot(), [&](at::Tensor& to, bool add) { product_.weight_gradient(to, d, x_, add); });
    x_ = at::Tensor();
    return {wanted[0] ? product_.input_gradient(d) : at::Tensor()};
  }

 private:
  RowProduct product_;
  framework::Parameter bias_;
  AfterLinear after_;
  GradientBuffer& gradients_;
  at::Tensor x_, y_;
};

class ActivationPenaltyLayer final : public GraphLayer {
 public:
  ActivationPenaltyLayer(const models::LayerSpec& layer, size_t, const GraphContext&)
      : alpha_(layer.options.at("alpha").get<double>()), beta_(layer.options.at("beta").get<double>()) {}

  GraphValue forward(const Inputs& inputs, const GraphPass&) override {
    const RowPlan& plan = *inputs[0]->plan;
    MLBENCH_CHECK(plan.order == RowPlan::Order::kByPosition && plan.rows() == plan.sequences() * plan.positions,
                  "a penalty of activations of sequences with padding");
    h_ = inputs[0]->data;
    differences_ = at::Tensor();
    at::Tensor penalty = h_.square().mean() * alpha_;
    if (plan.positions > 1) {
      const at::Tensor& g = inputs[1]->data;
      const int64_t step = plan.sequences(), rows = g.size(0) - step;
      differences_ = g.narrow(0, step, rows) - g.narrow(0, 0, rows);
      penalty = penalty + differences_.square().mean() * beta_;
    }
    return {penalty, nullptr, false};
  }

  std::vector<at::Tensor> backward(const at::Tensor& dy, const std::vector<bool>&) override {
    const auto scale = dy.item<double>();
    const auto of = [scale](double weight, const at::Tensor& x) {
      return x * (2 * weight * scale / static_cast<double>(x.numel()));
    };
    at::Tensor dg = at::zeros_like(h_);
    if (differences_.defined()) {
      const at::Tensor d = of(beta_, differences_);
      dg.narrow(0, h_.size(0) - d.size(0), d.size(0)).add_(d);
      dg.narrow(0, 0, d.size(0)).sub_(d);
    }
    return {of(alpha_, h_), dg};
  }

 private:
  double alpha_, beta_;
  at::Tensor h_, differences_;
};

// ---- the table

template <typename Layer>
std::unique_ptr<GraphLayer> make_one(const models::LayerSpec& layer, size_t index, const GraphContext& context) {
  if constexpr (std::is_default_constructible_v<Layer>) {
    return std::make_unique<Layer>();
  } else {
    return std::make_unique<Layer>(layer, index, context);
  }
}

struct GraphRow {
  const char* kind;
  std::unique_ptr<GraphLayer> (*make)(const models::LayerSpec& layer, size_t index, const GraphContext& context);
};
constexpr GraphRow kGraphLayers[] = {
    {"linear", make_one<LinearLayer>},
    {"relu", make_one<ReluLayer>},
    {"dropout", make_one<DropoutLayer>},
    {"embedding", make_one<EmbeddingLayer>},
    {"transpose", make_one<TransposeLayer>},
    {"positions", make_one<PositionsLayer>},
    {"layer_norm", make_one<LayerNormLayer>},
    {"add", make_one<AddLayer>},
    {"concat", make_one<ConcatLayer>},
    {"locked_dropout", make_one<LockedDropoutLayer>},
    {"lstm_sequence", make_lstm_sequence},
    {"multi_head_attention", make_multi_head_attention},
    {"additive_attention", make_additive_attention},
    {"activation_penalty", make_one<ActivationPenaltyLayer>},
};

std::unique_ptr<GraphLayer> make_graph_layer(const models::LayerSpec& layer, size_t index,
                                             const GraphContext& context) {
  std::vector<const char*> kinds;
  for (const GraphRow& row : kGraphLayers) {
    if (row.kind == layer.kind) return row.make(layer, index, context);
    kinds.push_back(row.kind);
  }
  throw UserError(fmt::format("framework 'native' has no layer '{}' in graphs (model '{}'); it has: {}", layer.kind,
                              context.model.name, fmt::join(kinds, ", ")));
}

// The number of layers and penalties that take each value.
std::map<std::string, int> uses_of(const models::ModelDescription& model) {
  std::map<std::string, int> uses;
  for (const models::LayerSpec& layer : model.layers) {
    for (const std::string& value : layer.inputs) ++uses[value];
  }
  for (const std::string& value : model.penalties) ++uses[value];
  return uses;
}

}  // namespace

void RowProduct::begin(const GraphPass& pass) {
  if (pass.decode != nullptr && pass.decode->position > 0)
    return;  // the weight does not change while sequences are written
  factor_ = framework::prepared(weight_.value, type_, &memory_);
}

at::Tensor RowProduct::output(const at::Tensor& x, int64_t first, int64_t count) const {
  return framework::product(x, factor_.narrow(0, first, count).t(), type_);
}

at::Tensor RowProduct::input_gradient(const at::Tensor& dy, int64_t first, int64_t count) const {
  return framework::product(dy, factor_.narrow(0, first, count), type_);
}

void RowProduct::weight_gradient(at::Tensor to, const at::Tensor& dy, const at::Tensor& x, bool add) const {
  framework::multiply(to, dy.t(), x, add, type_);
}

std::vector<GraphStep> make_graph_steps(const GraphContext& context) {
  const std::vector<models::LayerSpec>& layers = context.model.layers;
  const std::map<std::string, int> uses = uses_of(context.model);
  std::vector<GraphStep> steps;
  for (size_t i = 0; i + 1 < layers.size(); ++i) {
    const models::LayerSpec& layer = layers[i];
    // Whether layer number j is of that kind, and the only one that takes the output of layer j - 1.
    const auto follows = [&](size_t j, const char* kind) {
      return j + 1 < layers.size() && layers[j].kind == kind && layers[j].inputs.back() == layers[j - 1].output &&
             uses.at(layers[j - 1].output) == 1;
    };
    if (layer.kind == "linear" && follows(i + 1, "relu")) {
      AfterLinear after{true, {}};
      const bool drops = follows(i + 2, "dropout");
      if (drops) after.dropout = dropout_of(layers[i + 2], i + 2, context);
      steps.push_back({std::make_unique<LinearLayer>(layer, i, context, after),
                       layer.name + (drops ? "+relu+dropout" : "+relu"), layer.inputs,
                       layers[i + (drops ? 2 : 1)].output});
      i += drops ? 2 : 1;
    } else if (layer.kind == "dropout" && follows(i + 1, "add") && layers[i + 1].inputs[0] != layer.output) {
      steps.push_back({std::make_unique<AddLayer>(dropout_of(layer, i, context)),
                       layer.name + "+add",
                       {layers[i + 1].inputs[0], layer.inputs[0]},
                       layers[i + 1].output});
      ++i;
    } else {
      steps.push_back({make_graph_layer(layer, i, context), layer.name, layer.inputs, layer.output});
    }
  }
  return steps;
}

}  // namespace mlbench::framework::native_framework
