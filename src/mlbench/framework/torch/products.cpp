#include "mlbench/framework/torch/products.h"

#include <ATen/ATen.h>
#include <torch/autograd.h>

#include "mlbench/framework/tensors/products.h"

namespace mlbench::framework::torch_framework {

namespace {

at::Tensor rows_of(const at::Tensor& x) { return x.flatten(0, -2); }

at::Tensor linear_of(const at::Tensor& x, const at::Tensor& weight, at::ScalarType type) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return product(rows_of(x), weight.t(), type).view(shape);
}

struct Linear : torch::autograd::Function<Linear> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight,
                            at::ScalarType type) {
    const at::Tensor left = prepared(x, type), right = prepared(weight, type);
    context->save_for_backward({left, right});
    context->saved_data["type"] = type;
    return linear_of(left, right, type);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const auto type = context->saved_data["type"].toScalarType();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor dy = prepared(rows_of(gradients[0]), type);
    torch::autograd::variable_list found(3);
    if (context->needs_input_grad(0)) found[0] = product(dy, weight, type).view(x.sizes());
    if (context->needs_input_grad(1)) found[1] = product(dy.t(), rows_of(x), type);
    return found;
  }
};

}  // namespace

void store_product(at::Tensor& to, const at::Tensor& a, const at::Tensor& b, bool add, at::ScalarType type,
                   KeptMatrix* product) {
  multiply(to, a, b, add, type, product);
}

at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight, at::ScalarType type) {
  return at::GradMode::is_enabled() ? Linear::apply(x, weight, type) : linear_of(x, weight, type);
}

}  // namespace mlbench::framework::torch_framework
