#include "mlbench/framework/torch/operations.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/framework/framework.h"
#include "mlbench/framework/tensors/dropout.h"
#include "mlbench/framework/tensors/flat.h"
#include "mlbench/framework/tensors/products.h"
#include "mlbench/framework/tensors/sparse_linear.h"
#include "mlbench/framework/torch/batch_norm_layer.h"
#include "mlbench/framework/torch/differentiable.h"
#include "mlbench/framework/torch/dropout_on_gpu.h"
#include "mlbench/framework/torch/kernels.h"
#include "mlbench/framework/torch/products.h"

namespace mlbench::framework::torch_framework {

namespace {

constexpr auto kNhwc = at::MemoryFormat::ChannelsLast;

bool has_bias(const models::LayerSpec& layer) { return layer.options.value("bias", true); }

Operation make_conv2d(const models::LayerSpec& layer, size_t, const BuildContext& context) {
  const Parameter weight = context.parameter(layer.name + ".weight");
  const bool biased = has_bias(layer);
  const Parameter bias = biased ? context.parameter(layer.name + ".bias") : Parameter();
  const auto stride = layer.options.at("stride").get<int64_t>();
  const auto padding = layer.options.at("padding").get<int64_t>();
  const at::ScalarType type = context.product_type;
  GradientBuffer& gradients = context.gradients;
  return [=, &gradients](const at::Tensor& input, const Pass&) {
    const at::Tensor x = input.detach().to(type), w = weight.value.to(type);
    const auto forward = [&] {
      const at::Tensor b = biased ? bias.value.to(type) : at::Tensor();
      return at::conv2d(x, w, b, {stride, stride}, {padding, padding}).to(at::kFloat);
    };
    return differentiable(input, forward, [=, &gradients](const at::Tensor& dy, bool input_wanted) {
      auto [dx, dw, db] = at::convolution_backward(
          dy.to(type), x, w, biased ? at::OptionalIntArrayRef(bias.value.sizes()) : at::OptionalIntArrayRef(),
          {stride, stride}, {padding, padding}, {1, 1}, false, {0, 0}, 1, {input_wanted, true, biased});
      if (biased) {
        gradients.contribute(bias.slot, [&db = db](at::Tensor& target, bool add) { store(target, db, add); });
      }
      gradients.contribute(weight.slot, [&dw = dw](at::Tensor& target, bool add) { store(target, dw, add); });
      return input_wanted ? dx.to(at::kFloat) : dx;
    });
  };
}

// The linear layer of graphs, by this project's products. Chains use LibTorch's, so that their bits are LibTorch's.
Operation make_linear_of_tokens(const models::LayerSpec& layer, const BuildContext& context) {
  const Parameter weight = context.parameter(models::parameter_name(layer, "weight"));
  const Parameter bias = has_bias(layer) ? context.parameter(models::parameter_name(layer, "bias")) : Parameter();
  const at::ScalarType type = context.product_type;
  GradientBuffer& gradients = context.gradients;
  return [=, &gradients](const at::Tensor& input, const Pass&) {
    const at::Tensor x = prepared(input.detach(), type), w = prepared(weight.value, type);
    const auto forward = [&] {
      const at::Tensor y = linear_product(x, w, type);
      return bias.value.defined() ? y + bias.value : y;
    };
    return differentiable(input, forward, [=, &gradients](const at::Tensor& gradient, bool input_wanted) {
      const at::Tensor dy = gradient.flatten(0, -2);
      if (bias.value.defined()) {
        gradients.contribute(bias.slot, [&](at::Tensor& target, bool add) { store(target, dy.sum(0), add); });
      }
      const at::Tensor d = prepared(dy, type);
      gradients.contribute(weight.slot, [&](at::Tensor& target, bool add) {
        store_product(target, d.t(), x.flatten(0, -2), add, type);
      });
      return input_wanted ? product(d, w, type).view(x.sizes()) : at::Tensor();
    });
  };
}

Operation make_linear(const models::LayerSpec& layer, size_t, const BuildContext& context) {
  if (context.model.is_graph()) return make_linear_of_tokens(layer, context);
  const Parameter weight = context.parameter(models::parameter_name(layer, "weight"));
  const Parameter bias = has_bias(layer) ? context.parameter(models::parameter_name(layer, "bias")) : Parameter();
  const at::ScalarType type = context.product_type;
  GradientBuffer& gradients = context.gradients;
  return [=, &gradients](const at::Tensor& input, const Pass&) {
    const at::Tensor x = input.detach().to(type), w = weight.value.to(type);
    const auto forward = [&] {
      const at::Tensor y = bias.value.defined() ? at::addmm(bias.value.to(type), x, w.t()) : at::mm(x, w.t());
      return y.to(at::kFloat);
    };
    return differentiable(input, forward, [=, &gradients](const at::Tensor& dy, bool input_wanted) {
      if (bias.value.defined()) {
        gradients.contribute(bias.slot, [&](at::Tensor& target, bool add) {
          if (add) {
            target.add_(dy.sum(0));
          } else {
            at::sum_out(target, dy, 0);
          }
        });
      }
      const at::Tensor d = dy.to(type);
      gradients.contribute(weight.slot, [&](at::Tensor& target, bool add) {
        if (type != at::kFloat) {
          store(target, d.t().mm(x), add);
        } else if (add) {
          target.addmm_(d.t(), x);
        } else {
          at::mm_out(target, d.t(), x);
        }
      });
      return input_wanted ? d.mm(w).to(at::kFloat) : at::Tensor();
    });
  };
}

Operation make_batch_norm(const models::LayerSpec& layer, const BuildContext& context, bool relu) {
  return [norm = BatchNorm(layer, context), relu](const at::Tensor& input, const Pass& pass) {
    return norm(input, {}, relu, pass);
  };
}

Operation make_batch_norm2d(const models::LayerSpec& layer, size_t, const BuildContext& context) {
  return make_batch_norm(layer, context, false);
}

// A linear layer with one output and without bias, as the first layer. It reads the samples directly.
Operation make_rows_times_vector(const models::LayerSpec& layer, const BuildContext& context) {
  const Parameter weight = context.parameter(layer.name + ".weight");
  GradientBuffer& gradients = context.gradients;
  return [=, &gradients](const at::Tensor& input, const Pass& pass) {
    const RowSelection rows = pass.rows;
    const auto forward = [&] {
      at::Tensor output = at::empty({rows.samples, 1}, at::kFloat);
      rows_times_vector(rows, weight.value.const_data_ptr<float>(), output.data_ptr<float>());
      return output;
    };
    return differentiable(input, forward, [=, &gradients](const at::Tensor& dy, bool) {
      const at::Tensor dense = dy.contiguous();
      gradients.contribute(weight.slot, [&](at::Tensor& target, bool add) {
        rows_times_vector_backward(rows, dense.const_data_ptr<float>(), add, target.data_ptr<float>());
      });
      return at::Tensor();
    });
  };
}

// A linear layer with one output that reads sparse rows. The backward pass is of the last forward pass's rows.
Operation make_sparse_linear(const models::LayerSpec& layer, const BuildContext& context) {
  const Parameter weight = context.parameter(layer.name + ".weight");
  const auto linear = std::make_shared<SparseLinear>(weight.value.numel(), context.threads);
  GradientBuffer& gradients = context.gradients;
  return [=, &gradients](const at::Tensor& input, const Pass& pass) {
    const auto forward = [&] {
      linear->forward(*pass.sparse_rows, weight.value.const_data_ptr<float>());
      at::Tensor output = at::empty({std::ssize(linear->outputs()), 1}, at::kFloat);
      std::ranges::copy(linear->outputs(), output.data_ptr<float>());
      return output;
    };
    return differentiable(input, forward, [=, &gradients](const at::Tensor& dy, bool) {
      const at::Tensor dense = dy.contiguous();
      gradients.contribute(weight.slot, [&](at::Tensor& target, bool add) {
        linear->gradient(values_of(dense), add, target.data_ptr<float>());
      });
      return at::Tensor();
    });
  };
}

Operation make_dropout(const models::LayerSpec& layer, size_t index, const BuildContext& context) {
  const auto p = layer.options.at("p").get<double>();
  const bool enabled = context.dropout && p > 0;
  return [=](const at::Tensor& input, const Pass& pass) {
    if (!enabled || !pass.training) return input;
    return input * dropout_mask_of(pass, index, p, input.sizes(), input.device());
  };
}

Operation make_max_pool2d(const models::LayerSpec& layer, size_t, const BuildContext&) {
  const int64_t kernel = layer.options.at("kernel"), stride = layer.options.at("stride"),
                padding = layer.options.at("padding");
  return [=](const at::Tensor& input, const Pass&) { return at::max_pool2d(input, kernel, stride, padding); };
}

Operation make_avg_pool2d(const models::LayerSpec& layer, size_t, const BuildContext&) {
  const int64_t kernel = layer.options.at("kernel"), stride = layer.options.at("stride"),
                padding = layer.options.at("padding");
  return [=](const at::Tensor& input, const Pass&) { return at::avg_pool2d(input, kernel, stride, padding); };
}

Operation make_adaptive_avg_pool2d(const models::LayerSpec& layer, size_t, const BuildContext&) {
  const int64_t size = layer.options.at("size");
  return [=](const at::Tensor& input, const Pass&) { return at::adaptive_avg_pool2d(input, {size, size}); };
}

template <at::Tensor (*kFunction)(const at::Tensor&)>
Operation make_activation(const models::LayerSpec&, size_t, const BuildContext&) {
  return [](const at::Tensor& input, const Pass&) { return kFunction(input); };
}

at::Tensor softplus(const at::Tensor& input) { return at::softplus(input); }
at::Tensor flatten(const at::Tensor& input) { return at::flatten(input, 1); }
at::Tensor global_avg_pool2d(const at::Tensor& input) { return input.mean({2, 3}); }
at::Tensor global_avg_max_pool2d(const at::Tensor& input) {
  return at::cat({input.mean({2, 3}), std::get<0>(input.flatten(2).max(2))}, 1);
}

Operation make_chain(const std::vector<models::LayerSpec>& layers, const BuildContext& context,
                     std::set<std::string>& fused);

struct Row {
  const char* kind;
  Operation (*make)(const models::LayerSpec& layer, size_t index, const BuildContext& context);
};
constexpr Row kLayers[] = {
    {"conv2d", make_conv2d},
    {"linear", make_linear},
    {"relu", make_activation<at::relu>},
    {"softplus", make_activation<softplus>},
    {"flatten", make_activation<flatten>},
    {"batch_norm2d", make_batch_norm2d},
    {"residual", nullptr},  // made by make_residual, as it contains chains
    {"global_avg_pool2d", make_activation<global_avg_pool2d>},
    {"global_avg_max_pool2d", make_activation<global_avg_max_pool2d>},
    {"max_pool2d", make_max_pool2d},
    {"avg_pool2d", make_avg_pool2d},
    {"adaptive_avg_pool2d", make_adaptive_avg_pool2d},
    {"dropout", make_dropout},
};

// Fuses three passes over the largest activations into one, forward and backward.
at::Tensor relu_max_pool2d(const at::Tensor& input, const Pass&) {
  const PoolShape shape{input.size(0), input.size(2), input.size(3), input.size(1)};
  if (shape.height % 2 != 0 || shape.width % 2 != 0) return at::max_pool2d(at::relu(input), {2, 2});
  at::Tensor winner = at::empty({shape.samples, shape.height / 2, shape.width / 2, shape.channels}, at::kByte);
  const auto forward = [&] {
    const at::Tensor dense = input.contiguous(kNhwc);
    at::Tensor output =
        at::empty({shape.samples, shape.channels, shape.height / 2, shape.width / 2}, at::kFloat, kNhwc);
    relu_max_pool(dense.data_ptr<float>(), shape, output.data_ptr<float>(), winner.data_ptr<uint8_t>());
    return output;
  };
  return differentiable(input, forward, [shape, winner](const at::Tensor& dy, bool) {
    const at::Tensor dense = dy.contiguous(kNhwc);
    at::Tensor dx = at::empty({shape.samples, shape.channels, shape.height, shape.width}, at::kFloat, kNhwc);
    relu_max_pool_backward(dense.data_ptr<float>(), winner.data_ptr<uint8_t>(), shape, dx.data_ptr<float>());
    return dx;
  });
}

// Makes a residual layer. A batch norm at the end of the body also computes the sum, and the ReLU after the sum.
Operation make_residual(const models::LayerSpec& layer, const BuildContext& context, std::set<std::string>& fused,
                        bool relu) {
  std::vector<models::LayerSpec> layers = layer.body;
  std::optional<BatchNorm> norm;
  if (!layers.empty() && layers.back().kind == "batch_norm2d") {
    norm.emplace(layers.back(), context);
    layers.pop_back();
    fused.insert("batch_norm2d+residual");
  }
  const Operation body = make_chain(layers, context, fused);
  const Operation shortcut = make_chain(layer.shortcut, context, fused);
  LayerTimes& times = context.times;
  const LayerTimes::Name sum =
      times.name((norm ? layer.body.back().name + "+" : "") + "residual" + (relu ? "+relu" : ""));
  return [=, &times](const at::Tensor& input, const Pass& pass) {
    const at::Tensor a = body(input, pass);
    const at::Tensor b = shortcut(input, pass);
    return times.forward(sum, pass.training, a, [&] {
      if (norm) return (*norm)(a, b, relu, pass);
      return relu ? at::relu(a + b) : a + b;
    });
  };
}

Operation make_layer(const models::LayerSpec& layer, size_t index, const BuildContext& context,
                     std::set<std::string>& fused) {
  if (layer.kind == "residual") return make_residual(layer, context, fused, false);
  std::vector<const char*> kinds;
  for (const Row& row : kLayers) {
    if (row.kind == layer.kind) return row.make(layer, index, context);
    kinds.push_back(row.kind);
  }
  throw UserError(fmt::format("framework 'torch' has no layer '{}' (model '{}'); it has: {}", layer.kind,
                              context.model.name, fmt::join(kinds, ", ")));
}

// Whether relu_max_pool2d computes this pool.
bool halves(const models::LayerSpec& pool) {
  return pool.kind == "max_pool2d" && pool.options == Json{{"kernel", 2}, {"stride", 2}, {"padding", 0}};
}

// Makes a layer and its successor as one operation, where there is a kernel for both; otherwise null.
Operation make_pair(const models::LayerSpec& first, const models::LayerSpec& second, const BuildContext& context,
                    std::set<std::string>& fused) {
  if (context.on_host && first.kind == "relu" && halves(second)) return relu_max_pool2d;
  if (first.kind == "batch_norm2d" && second.kind == "relu") return make_batch_norm(first, context, true);
  if (first.kind == "residual" && second.kind == "relu") return make_residual(first, context, fused, true);
  return {};
}

const std::string& label_of(const models::LayerSpec& layer) { return layer.name.empty() ? layer.kind : layer.name; }

// Wraps a layer's operation so that LayerTimes learns its times. A residual layer stays as it is, as its layers are
// wrapped themselves.
Operation timed(const models::LayerSpec& layer, const std::string& label, Operation operation, LayerTimes& times) {
  if (layer.kind == "residual") return operation;
  return [operation = std::move(operation), name = times.name(label), &times](const at::Tensor& x, const Pass& pass) {
    return times.forward(name, pass.training, x, [&] { return operation(x, pass); });
  };
}

Operation make_chain(const std::vector<models::LayerSpec>& layers, const BuildContext& context,
                     std::set<std::string>& fused) {
  std::vector<Operation> operations;
  for (size_t i = 0; i < layers.size(); ++i) {
    const models::LayerSpec& layer = layers[i];
    Operation pair = i + 1 < layers.size() ? make_pair(layer, layers[i + 1], context, fused) : Operation();
    if (pair) {
      fused.insert(layer.kind + "+" + layers[i + 1].kind);
      operations.push_back(
          timed(layer, label_of(layer) + "+" + label_of(layers[i + 1]), std::move(pair), context.times));
      ++i;
    } else {
      operations.push_back(timed(layer, label_of(layer), make_layer(layer, i, context, fused), context.times));
    }
  }
  return [operations = std::move(operations)](const at::Tensor& input, const Pass& pass) {
    at::Tensor x = input;
    for (const Operation& operation : operations) x = operation(x, pass);
    return x;
  };
}

constexpr Row kSimpleLayers[] = {
    {"linear", make_linear},
    {"relu", make_activation<at::relu>},
};

}  // namespace

Operation make_simple_layer(const models::LayerSpec& layer, size_t index, const BuildContext& context) {
  for (const Row& row : kSimpleLayers) {
    if (row.kind == layer.kind) return row.make(layer, index, context);
  }
  return {};
}

std::vector<std::string> simple_layers() {
  std::vector<std::string> names;
  for (const Row& row : kSimpleLayers) names.emplace_back(row.kind);
  return names;
}

at::Tensor dropout_mask_of(const Pass& pass, size_t layer, double p, at::IntArrayRef shape, const at::Device& device) {
  const uint64_t key = models::dropout_key(pass.seed, pass.rank, pass.step, layer, pass.micro_batch);
  if (device.is_cuda()) return dropout_mask_on_gpu(key, p, shape, device);
  const at::Tensor mask = at::empty(shape, at::kFloat);
  dropout_mask(key, p, values_of(mask));
  return mask;
}

Network build(const BuildContext& context) {
  std::set<std::string> fused;
  std::vector<models::LayerSpec> layers = context.model.layers;
  const models::LayerSpec& first = layers.front();
  if (!context.on_host || first.kind != "linear" || first.options.at("out") != 1 || has_bias(first)) {
    Operation forward = make_chain(layers, context, fused);
    return {std::move(forward), {fused.begin(), fused.end()}, false};
  }
  const auto make_read = context.sparse_rows ? make_sparse_linear : make_rows_times_vector;
  Operation read = timed(first, label_of(first), make_read(first, context), context.times);
  layers.erase(layers.begin());
  Operation rest = make_chain(layers, context, fused);
  fused.insert(context.sparse_rows ? "gather+sparse linear" : "gather+linear");
  return {[=](const at::Tensor& input, const Pass& pass) { return rest(read(input, pass), pass); },
          {fused.begin(), fused.end()},
          true};
}

}  // namespace mlbench::framework::torch_framework
