#include "mlbench/framework/torch/products.h"

#include <torch/torch.h>

#include "mlbench/framework/products.h"
#include "mlbench/framework/torch/differentiable.h"

namespace mlbench::framework::torch_framework {

namespace {

at::Tensor rows_of(const at::Tensor& x) { return x.flatten(0, -2); }

at::Tensor linear_of(const at::Tensor& x, const at::Tensor& weight) {
  std::vector<int64_t> shape = x.sizes().vec();
  shape.back() = weight.size(0);
  return product(rows_of(x), weight.t()).view(shape);
}

struct Linear : torch::autograd::Function<Linear> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& weight) {
    context->save_for_backward({x, weight});
    return linear_of(x, weight);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1];
    const at::Tensor dy = rows_of(gradients[0]);
    torch::autograd::variable_list found(2);
    if (context->needs_input_grad(0)) found[0] = product(dy, weight).view(x.sizes());
    if (context->needs_input_grad(1)) found[1] = product(dy.t(), rows_of(x));
    return found;
  }
};

}  // namespace

at::Tensor product(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != at::kFloat) return at::mm(a, b).to(at::kFloat);
  at::Tensor result = at::empty({a.size(0), b.size(1)}, a.options());
  multiply(result, a, b, false);
  return result;
}

void store_product(at::Tensor& to, const at::Tensor& a, const at::Tensor& b, bool add) {
  if (a.scalar_type() == at::kFloat) {
    multiply(to, a, b, add);
  } else {
    store(to, at::mm(a, b), add);
  }
}

at::Tensor linear_product(const at::Tensor& x, const at::Tensor& weight) {
  if (x.scalar_type() != at::kFloat) return at::linear(x, weight);
  return at::GradMode::is_enabled() ? Linear::apply(x, weight) : linear_of(x, weight);
}

}  // namespace mlbench::framework::torch_framework
