#include "mlbench/framework/torch/operations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/torch.h>

#include <algorithm>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/framework/torch/kernels.h"

namespace mlbench::framework::torch_framework {

namespace {

// Input gradient from output gradient; an undefined tensor when `input_wanted` is false. Leaves the gradients of
// parameters in the gradient buffer on the way.
using Backward = std::function<at::Tensor(const at::Tensor& output_gradient, bool input_wanted)>;

// An operation with a backward pass of its own: `forward` runs out of autograd's sight, `backward` is one node of its
// graph. `anchor` wants a gradient and gets none: it brings the node into the graph where the input is a constant (the
// node yields gradients of parameters all the same).
struct Custom : torch::autograd::Function<Custom> {
  struct Saved : torch::CustomClassHolder {
    explicit Saved(Backward f) : backward(std::move(f)) {}
    Backward backward;
  };

  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor&, const at::Tensor& /*anchor*/,
                            const std::function<at::Tensor()>& forward, Backward backward) {
    context->saved_data["saved"] = c10::IValue::make_capsule(c10::make_intrusive<Saved>(std::move(backward)));
    return forward();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->saved_data["saved"].toCapsule();
    // Taken out, so that what the closure holds is freed as soon as it has been used.
    const Backward backward = std::move(static_cast<Saved&>(*saved).backward);
    return {backward(gradients[0], context->needs_input_grad(0)), {}, {}, {}};
  }
};

template <typename Forward>
at::Tensor differentiable(const at::Tensor& input, const Forward& forward, Backward backward) {
  if (!at::GradMode::is_enabled()) return forward();
  return Custom::apply(input, at::empty({0}).requires_grad_(true), std::function<at::Tensor()>(forward),
                       std::move(backward));
}

void store(at::Tensor& target, const at::Tensor& gradient, bool add) {
  if (add) {
    target.add_(gradient);
  } else {
    target.copy_(gradient);
  }
}

Operation make_conv2d(const models::LayerSpec& layer, size_t, const BuildContext& context) {
  const Parameter weight = context.parameter(layer.name + ".weight");
  const Parameter bias = context.parameter(layer.name + ".bias");
  const auto stride = layer.options.at("stride").get<int64_t>();
  const auto padding = layer.options.at("padding").get<int64_t>();
  const at::ScalarType type = context.product_type;
  GradientBuffer& gradients = context.gradients;
  return [=, &gradients](const at::Tensor& input, const Pass&) {
    const at::Tensor x = input.detach().to(type), w = weight.value.to(type);
    const auto forward = [&] {
      return at::conv2d(x, w, bias.value.to(type), {stride, stride}, {padding, padding}).to(at::kFloat);
    };
    return differentiable(input, forward, [=, &gradients](const at::Tensor& dy, bool input_wanted) {
      auto [dx, dw, db] =
          at::convolution_backward(dy.to(type), x, w, bias.value.sizes(), {stride, stride}, {padding, padding}, {1, 1},
                                   false, {0, 0}, 1, {input_wanted, true, true});
      gradients.contribute(bias.slot, [&](at::Tensor& target, bool add) { store(target, db, add); });
      gradients.contribute(weight.slot, [&](at::Tensor& target, bool add) { store(target, dw, add); });
      return input_wanted ? dx.to(at::kFloat) : dx;
    });
  };
}

Operation make_linear(const models::LayerSpec& layer, size_t, const BuildContext& context) {
  const Parameter weight = context.parameter(layer.name + ".weight");
  const Parameter bias = context.parameter(layer.name + ".bias");
  const at::ScalarType type = context.product_type;
  GradientBuffer& gradients = context.gradients;
  return [=, &gradients](const at::Tensor& input, const Pass&) {
    const at::Tensor x = input.detach().to(type), w = weight.value.to(type);
    const auto forward = [&] { return at::addmm(bias.value.to(type), x, w.t()).to(at::kFloat); };
    return differentiable(input, forward, [=, &gradients](const at::Tensor& dy, bool input_wanted) {
      gradients.contribute(bias.slot, [&](at::Tensor& target, bool add) {
        if (add) {
          target.add_(dy.sum(0));
        } else {
          at::sum_out(target, dy, 0);
        }
      });
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

Operation make_dropout(const models::LayerSpec& layer, size_t index, const BuildContext& context) {
  const auto p = layer.options.at("p").get<double>();
  const bool enabled = context.dropout && p > 0;
  return [=](const at::Tensor& input, const Pass& pass) {
    if (!enabled || !pass.training) return input;
    const at::Tensor mask = at::empty(input.sizes(), at::kFloat);
    dropout_mask(models::dropout_key(pass.seed, pass.rank, pass.step, index), p,
                 {mask.data_ptr<float>(), static_cast<size_t>(mask.numel())});
    return input * mask;
  };
}

Operation make_max_pool2d(const models::LayerSpec& layer, size_t, const BuildContext&) {
  const auto kernel = layer.options.at("kernel").get<int64_t>();
  return [=](const at::Tensor& input, const Pass&) { return at::max_pool2d(input, {kernel, kernel}); };
}

Operation make_avg_pool2d(const models::LayerSpec& layer, size_t, const BuildContext&) {
  const auto kernel = layer.options.at("kernel").get<int64_t>();
  return [=](const at::Tensor& input, const Pass&) { return at::avg_pool2d(input, {kernel, kernel}); };
}

template <at::Tensor (*kFunction)(const at::Tensor&)>
Operation make_activation(const models::LayerSpec&, size_t, const BuildContext&) {
  return [](const at::Tensor& input, const Pass&) { return kFunction(input); };
}

at::Tensor softplus(const at::Tensor& input) { return at::softplus(input); }
at::Tensor flatten(const at::Tensor& input) { return at::flatten(input, 1); }

struct Row {
  const char* kind;
  Operation (*make)(const models::LayerSpec& layer, size_t index, const BuildContext& context);
};
constexpr Row kLayers[] = {
    {"conv2d", make_conv2d},
    {"linear", make_linear},
    {"relu", make_activation<at::relu>},
    {"tanh", make_activation<at::tanh>},
    {"softplus", make_activation<softplus>},
    {"flatten", make_activation<flatten>},
    {"max_pool2d", make_max_pool2d},
    {"avg_pool2d", make_avg_pool2d},
    {"dropout", make_dropout},
};

constexpr auto kNhwc = at::MemoryFormat::ChannelsLast;

// Three passes over the largest activations become one, forward and backward.
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

Operation make_layer(const models::LayerSpec& layer, size_t index, const BuildContext& context) {
  std::vector<const char*> kinds;
  for (const Row& row : kLayers) {
    if (row.kind == layer.kind) return row.make(layer, index, context);
    kinds.push_back(row.kind);
  }
  throw UserError(fmt::format("framework 'torch' has no layer '{}' (model '{}'); it has: {}", layer.kind,
                              context.model.name, fmt::join(kinds, ", ")));
}

}  // namespace

Network build(const BuildContext& context) {
  const std::vector<models::LayerSpec>& layers = context.model.layers;
  Network network;
  for (size_t i = 0; i < layers.size(); ++i) {
    const bool pooled_next = i + 1 < layers.size() && layers[i + 1].kind == "max_pool2d";
    if (layers[i].kind == "relu" && pooled_next && layers[i + 1].options.at("kernel") == 2) {
      network.operations.emplace_back(relu_max_pool2d);
      network.fused = {"relu+max_pool2d"};
      ++i;
    } else {
      network.operations.push_back(make_layer(layers[i], i, context));
    }
  }
  return network;
}

}  // namespace mlbench::framework::torch_framework
