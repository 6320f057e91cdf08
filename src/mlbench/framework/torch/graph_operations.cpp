#include "mlbench/framework/torch/graph_operations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <memory>
#include <tuple>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/framework/framework.h"
#include "mlbench/framework/tensors/dropout.h"
#include "mlbench/framework/tensors/flat.h"
#include "mlbench/framework/torch/differentiable.h"

namespace mlbench::framework::torch_framework {

namespace {

GraphOperation make_embedding(const models::LayerSpec& layer, size_t index, const BuildContext& context) {
  const Parameter weight = context.parameter(models::parameter_name(layer, "weight"));
  const auto scale = layer.options.at("scale").get<double>();
  const auto p = layer.options.at("row_dropout").get<double>();
  const bool drops = context.dropout && p > 0;
  GradientBuffer& gradients = context.gradients;
  return [=, &gradients](const std::vector<GraphValue>& inputs, GraphPass& pass) {
    const at::Tensor ids = inputs[0].data;
    at::Tensor factor;  // one factor for each id
    if (drops && pass.pass.training) {
      const at::Tensor mask =
          dropout_mask_of(pass.pass, index, p, {weight.value.size(0)}, weight.value.device()).mul_(scale);
      factor = mask.index_select(0, ids).unsqueeze(1);
    }
    const auto scaled = [=](const at::Tensor& rows) {
      if (factor.defined()) return rows * factor;
      return scale == 1 ? rows : rows * scale;
    };
    const auto forward = [&] { return scaled(weight.value.index_select(0, ids)); };
    return inputs[0].with(differentiable_of_many(
        {}, forward, [=, &gradients](const at::Tensor& dy, const std::vector<bool>&) -> std::vector<at::Tensor> {
          const at::Tensor rows = scaled(dy);
          gradients.contribute(weight.slot, [&](at::Tensor& target, bool add) {
            if (!add) target.zero_();
            target.index_add_(0, ids, rows);
          });
          return {};
        }));
  };
}

GraphOperation make_transpose(const models::LayerSpec&, size_t, const BuildContext&) {
  return [](const std::vector<GraphValue>& inputs, GraphPass&) { return transposed(inputs[0]); };
}

// The table P of layer_kinds.h, [positions, features].
at::Tensor sinusoids(int64_t positions, int64_t features) {
  at::Tensor table = at::empty({positions, features}, at::kFloat);
  float* values = table.data_ptr<float>();
  for (int64_t t = 0; t < positions; ++t) {
    for (int64_t j = 0; j < features; ++j) {
      const double exponent = static_cast<double>(j - j % 2) / static_cast<double>(features);
      const double angle = static_cast<double>(t) * std::pow(10000.0, -exponent);
      values[t * features + j] = static_cast<float>(j % 2 == 0 ? std::sin(angle) : std::cos(angle));
    }
  }
  return table;
}

GraphOperation make_positions(const models::LayerSpec&, size_t, const BuildContext&) {
  const auto table = std::make_shared<at::Tensor>();
  return [table](const std::vector<GraphValue>& inputs, GraphPass& pass) {
    const at::Tensor& x = inputs[0].data;
    const RowPlan& plan = *inputs[0].plan;
    const int64_t first = pass.decode != nullptr ? pass.decode->position : 0;
    if (!table->defined() || table->size(0) < first + plan.positions) {
      *table = sinusoids(2 * (first + plan.positions), x.size(1)).to(x.device());
    }
    return inputs[0].with(x + table->index_select(0, plan.by_sequence.remainder(plan.positions) + first));
  };
}

GraphOperation make_layer_norm(const models::LayerSpec& layer, size_t, const BuildContext& context) {
  const Parameter weight = context.parameter(models::parameter_name(layer, "weight"));
  const Parameter bias = context.parameter(models::parameter_name(layer, "bias"));
  const auto eps = layer.options.at("eps").get<double>();
  GradientBuffer& gradients = context.gradients;
  return [=, &gradients](const std::vector<GraphValue>& inputs, GraphPass&) {
    const at::Tensor x = inputs[0].data.detach().contiguous();
    const std::vector<int64_t> last = {x.size(-1)};
    struct Saved {
      at::Tensor mean, inv_std;
    };
    const auto saved = std::make_shared<Saved>();
    const auto forward = [&] {
      at::Tensor y;
      std::tie(y, saved->mean, saved->inv_std) = at::native_layer_norm(x, last, weight.value, bias.value, eps);
      return y;
    };
    return inputs[0].with(
        differentiable(inputs[0].data, forward, [=, &gradients](const at::Tensor& dy, bool input_wanted) {
          auto [dx, dw, db] = at::native_layer_norm_backward(dy.contiguous(), x, last, saved->mean, saved->inv_std,
                                                             weight.value, bias.value, {input_wanted, true, true});
          gradients.contribute(bias.slot, [&, &db = db](at::Tensor& to, bool add) { store(to, db, add); });
          gradients.contribute(weight.slot, [&, &dw = dw](at::Tensor& to, bool add) { store(to, dw, add); });
          return dx;
        }));
  };
}

GraphOperation make_add(const models::LayerSpec&, size_t, const BuildContext&) {
  return
      [](const std::vector<GraphValue>& inputs, GraphPass&) { return inputs[0].with(inputs[0].data + inputs[1].data); };
}

GraphOperation make_concat(const models::LayerSpec&, size_t, const BuildContext&) {
  return [](const std::vector<GraphValue>& inputs, GraphPass&) {
    return inputs[0].with(at::cat({inputs[0].data, inputs[1].data}, 1));
  };
}

// The mask of a dropout layer for the rows of `value`, [rows, features].
at::Tensor mask_of_rows(const Pass& pass, size_t index, double p, const GraphValue& value) {
  const at::Tensor& x = value.data;
  const RowPlan& plan = *value.plan;
  const int64_t features = x.size(1);
  if (plan.is_padded(value.positions_first)) return dropout_mask_of(pass, index, p, x.sizes(), x.device());
  if (x.is_cuda()) {
    return dropout_mask_of(pass, index, p, {plan.sequences() * plan.positions, features}, x.device())
        .index_select(0, value.places());
  }
  const at::Tensor mask = at::empty(x.sizes(), at::kFloat), &places = value.places();
  dropout_mask_rows(models::dropout_key(pass.seed, pass.rank, pass.step, index, pass.micro_batch), p,
                    {places.const_data_ptr<int64_t>(), static_cast<size_t>(places.numel())}, features, values_of(mask));
  return mask;
}

GraphOperation make_dropout_of_rows(const models::LayerSpec& layer, size_t index, const BuildContext& context) {
  const auto p = layer.options.at("p").get<double>();
  const bool enabled = context.dropout && p > 0;
  return [=](const std::vector<GraphValue>& inputs, GraphPass& pass) {
    if (!enabled || !pass.pass.training) return inputs[0];
    return inputs[0].with(inputs[0].data * mask_of_rows(pass.pass, index, p, inputs[0]));
  };
}

GraphOperation make_locked_dropout(const models::LayerSpec& layer, size_t index, const BuildContext& context) {
  const auto p = layer.options.at("p").get<double>();
  const bool enabled = context.dropout && p > 0;
  return [=](const std::vector<GraphValue>& inputs, GraphPass& pass) {
    if (!enabled || !pass.pass.training) return inputs[0];
    const at::Tensor& x = inputs[0].data;
    const RowPlan& plan = *inputs[0].plan;
    const at::Tensor mask = dropout_mask_of(pass.pass, index, p, {plan.sequences(), x.size(1)}, x.device());
    if (plan.is_padded(true)) return inputs[0].with((padded(x, plan, true) * mask).flatten(0, 1));
    return inputs[0].with(x * mask.index_select(0, plan.by_sequence.floor_divide(plan.positions)));
  };
}

GraphOperation make_activation_penalty(const models::LayerSpec& layer, size_t, const BuildContext&) {
  const auto alpha = layer.options.at("alpha").get<double>(), beta = layer.options.at("beta").get<double>();
  return [=](const std::vector<GraphValue>& inputs, GraphPass&) {
    const RowPlan& plan = *inputs[0].plan;
    MLBENCH_CHECK(plan.is_padded(true), "a penalty of activations of sequences with padding");
    at::Tensor penalty = inputs[0].data.square().mean() * alpha;
    if (plan.positions > 1) {
      const at::Tensor& g = inputs[1].data;
      const int64_t step = plan.sequences(), rows = g.size(0) - step;
      penalty = penalty + (g.narrow(0, step, rows) - g.narrow(0, 0, rows)).square().mean() * beta;
    }
    return GraphValue{penalty, nullptr, false};
  };
}

struct GraphRow {
  const char* kind;
  GraphOperation (*make)(const models::LayerSpec& layer, size_t index, const BuildContext& context);
};
constexpr GraphRow kGraphLayers[] = {
    {"dropout", make_dropout_of_rows},
    {"embedding", make_embedding},
    {"transpose", make_transpose},
    {"positions", make_positions},
    {"layer_norm", make_layer_norm},
    {"add", make_add},
    {"concat", make_concat},
    {"locked_dropout", make_locked_dropout},
    {"lstm_sequence", make_lstm_sequence},
    {"multi_head_attention", make_multi_head_attention},
    {"additive_attention", make_additive_attention},
    {"activation_penalty", make_activation_penalty},
};

}  // namespace

GraphOperation make_graph_operation(const models::LayerSpec& layer, size_t index, const BuildContext& context) {
  for (const GraphRow& row : kGraphLayers) {
    if (row.kind == layer.kind) return row.make(layer, index, context);
  }
  if (Operation simple = make_simple_layer(layer, index, context)) {
    return [simple = std::move(simple)](const std::vector<GraphValue>& inputs, GraphPass& pass) {
      return inputs[0].with(simple(inputs[0].data, pass.pass));
    };
  }
  std::vector<std::string> kinds = simple_layers();
  for (const GraphRow& row : kGraphLayers) kinds.emplace_back(row.kind);
  throw UserError(fmt::format("framework 'torch' has no layer '{}' in graphs (model '{}'); it has: {}", layer.kind,
                              context.model.name, fmt::join(kinds, ", ")));
}

}  // namespace mlbench::framework::torch_framework
