#include "mlbench/framework/torch/graph_operations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <memory>
#include <tuple>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/framework/framework.h"
#include "mlbench/framework/torch/differentiable.h"

namespace mlbench::framework::torch_framework {

namespace {

GraphOperation make_embedding(const models::LayerSpec& layer, size_t index, const BuildContext& context) {
  const Parameter weight = context.parameter(models::parameter_name(layer, "weight"));
  const auto scale = layer.options.at("scale").get<double>();
  const auto p = layer.options.at("row_dropout").get<double>();
  const bool drops = context.dropout && p > 0;
  GradientBuffer& gradients = context.gradients;
  return [=, &gradients](const std::vector<at::Tensor>& inputs, GraphPass& pass) {
    const at::Tensor ids = inputs[0].reshape({-1});
    std::vector<int64_t> shape = inputs[0].sizes().vec();
    shape.push_back(weight.value.size(1));
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
    const auto forward = [&] { return scaled(weight.value.index_select(0, ids)).view(shape); };
    return differentiable_of_many(
        {}, forward, [=, &gradients](const at::Tensor& dy, const std::vector<bool>&) -> std::vector<at::Tensor> {
          const at::Tensor rows = scaled(dy.reshape({ids.size(0), -1}));
          gradients.contribute(weight.slot, [&](at::Tensor& target, bool add) {
            if (!add) target.zero_();
            target.index_add_(0, ids, rows);
          });
          return {};
        });
  };
}

GraphOperation make_transpose(const models::LayerSpec&, size_t, const BuildContext&) {
  return [](const std::vector<at::Tensor>& inputs, GraphPass&) { return inputs[0].transpose(0, 1).contiguous(); };
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
  return [table](const std::vector<at::Tensor>& inputs, GraphPass& pass) {
    const at::Tensor& x = inputs[0];
    const int64_t first = pass.decode != nullptr ? pass.decode->position : 0;
    if (!table->defined() || table->size(0) < first + x.size(1)) {
      *table = sinusoids(2 * (first + x.size(1)), x.size(2)).to(x.device());
    }
    return x + table->narrow(0, first, x.size(1));
  };
}

GraphOperation make_layer_norm(const models::LayerSpec& layer, size_t, const BuildContext& context) {
  const Parameter weight = context.parameter(models::parameter_name(layer, "weight"));
  const Parameter bias = context.parameter(models::parameter_name(layer, "bias"));
  const auto eps = layer.options.at("eps").get<double>();
  GradientBuffer& gradients = context.gradients;
  return [=, &gradients](const std::vector<at::Tensor>& inputs, GraphPass&) {
    const at::Tensor x = inputs[0].detach().contiguous();
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
    return differentiable_of_many(
        inputs, forward,
        [=, &gradients](const at::Tensor& dy, const std::vector<bool>& wanted) -> std::vector<at::Tensor> {
          auto [dx, dw, db] = at::native_layer_norm_backward(dy.contiguous(), x, last, saved->mean, saved->inv_std,
                                                             weight.value, bias.value, {wanted[0], true, true});
          gradients.contribute(bias.slot, [&, &db = db](at::Tensor& to, bool add) { store(to, db, add); });
          gradients.contribute(weight.slot, [&, &dw = dw](at::Tensor& to, bool add) { store(to, dw, add); });
          return {dx};
        });
  };
}

GraphOperation make_add(const models::LayerSpec&, size_t, const BuildContext&) {
  return [](const std::vector<at::Tensor>& inputs, GraphPass&) { return inputs[0] + inputs[1]; };
}

GraphOperation make_concat(const models::LayerSpec&, size_t, const BuildContext&) {
  return [](const std::vector<at::Tensor>& inputs, GraphPass&) { return at::cat({inputs[0], inputs[1]}, -1); };
}

GraphOperation make_locked_dropout(const models::LayerSpec& layer, size_t index, const BuildContext& context) {
  const auto p = layer.options.at("p").get<double>();
  const bool enabled = context.dropout && p > 0;
  return [=](const std::vector<at::Tensor>& inputs, GraphPass& pass) {
    const at::Tensor& x = inputs[0];
    if (!enabled || !pass.pass.training) return x;
    return x * dropout_mask_of(pass.pass, index, p, {1, x.size(1), x.size(2)}, x.device());
  };
}

GraphOperation make_activation_penalty(const models::LayerSpec& layer, size_t, const BuildContext&) {
  const auto alpha = layer.options.at("alpha").get<double>(), beta = layer.options.at("beta").get<double>();
  return [=](const std::vector<at::Tensor>& inputs, GraphPass&) {
    at::Tensor penalty = inputs[0].square().mean() * alpha;
    const int64_t steps = inputs[1].size(0) - 1;
    if (steps > 0) {
      penalty = penalty + (inputs[1].narrow(0, 1, steps) - inputs[1].narrow(0, 0, steps)).square().mean() * beta;
    }
    return penalty;
  };
}

struct GraphRow {
  const char* kind;
  GraphOperation (*make)(const models::LayerSpec& layer, size_t index, const BuildContext& context);
};
constexpr GraphRow kGraphLayers[] = {
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
    return [simple = std::move(simple)](const std::vector<at::Tensor>& inputs, GraphPass& pass) {
      return simple(inputs[0], pass.pass);
    };
  }
  std::vector<std::string> kinds = simple_layers();
  for (const GraphRow& row : kGraphLayers) kinds.emplace_back(row.kind);
  throw UserError(fmt::format("framework 'torch' has no layer '{}' in graphs (model '{}'); it has: {}", layer.kind,
                              context.model.name, fmt::join(kinds, ", ")));
}

}  // namespace mlbench::framework::torch_framework
