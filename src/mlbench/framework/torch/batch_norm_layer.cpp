#include "mlbench/framework/torch/batch_norm_layer.h"

#include <algorithm>
#include <memory>
#include <tuple>
#include <vector>

#include "mlbench/framework/torch/differentiable.h"

namespace mlbench::framework::torch_framework {

namespace {

constexpr auto kChannelsLast = at::MemoryFormat::ChannelsLast;

}  // namespace

at::Tensor BatchNorm::operator()(const at::Tensor& input, const at::Tensor& addend, bool relu, const Pass& pass) const {
  const at::Tensor x = input.contiguous(kChannelsLast);
  const NormShape shape{x.size(0) * x.size(2) * x.size(3), x.size(1)};
  if (!on_host || !batch_norm_takes(shape)) return plain(x, addend, relu, pass);
  const bool of_batch = pass.training && !frozen;
  const at::Tensor used_mean = at::empty({shape.channels}, at::kFloat), inv_std = at::empty_like(used_mean);
  at::Tensor y = at::empty_like(x);
  const auto forward = [&] {
    statistics(x, shape, of_batch, used_mean, inv_std);
    const at::Tensor sum = addend.defined() ? addend.contiguous(kChannelsLast) : addend;
    batch_norm_forward(x.const_data_ptr<float>(), sum.defined() ? sum.const_data_ptr<float>() : nullptr, shape,
                       parameters(used_mean, inv_std), relu, y.data_ptr<float>());
    return y;
  };
  // The output is detached from autograd's graph, as the node must not own its own output.
  const at::Tensor output = relu ? y.detach() : at::Tensor();
  const BatchNorm self = *this;
  std::vector<at::Tensor> inputs = {input};
  if (addend.defined()) inputs.push_back(addend);
  return differentiable_of_many(inputs, forward, [=](const at::Tensor& gradient, const std::vector<bool>& wanted) {
    const at::Tensor dy = gradient.contiguous(kChannelsLast);
    const bool input_wanted = wanted[0], addend_wanted = wanted.size() > 1 && wanted[1];
    at::Tensor dx, d_addend;
    if (input_wanted) dx = at::empty_like(dy);
    // Without ReLU, the gradient of the addend is that of the output.
    if (addend_wanted) d_addend = relu ? at::empty_like(dy) : dy;
    const at::Tensor dw = at::empty({shape.channels}, at::kFloat), db = at::empty_like(dw);
    batch_norm_backward(
        x.const_data_ptr<float>(), relu ? output.const_data_ptr<float>() : nullptr, dy.const_data_ptr<float>(), shape,
        self.parameters(used_mean, inv_std), relu, of_batch, input_wanted ? dx.data_ptr<float>() : nullptr,
        addend_wanted && relu ? d_addend.data_ptr<float>() : nullptr, dw.data_ptr<float>(), db.data_ptr<float>());
    self.gradients->contribute(self.bias.slot, [&](at::Tensor& target, bool add) { store(target, db, add); });
    self.gradients->contribute(self.weight.slot, [&](at::Tensor& target, bool add) { store(target, dw, add); });
    return std::vector<at::Tensor>{dx, d_addend};
  });
}

NormParameters BatchNorm::parameters(const at::Tensor& used_mean, const at::Tensor& inv_std) const {
  return {used_mean.const_data_ptr<float>(), inv_std.const_data_ptr<float>(), weight.value.const_data_ptr<float>(),
          bias.value.const_data_ptr<float>()};
}

void BatchNorm::statistics(const at::Tensor& x, const NormShape& shape, bool of_batch, const at::Tensor& used_mean,
                           const at::Tensor& inv_std) const {
  if (!of_batch) {
    used_mean.copy_(mean.value);
    inv_std.copy_((variance.value + eps).rsqrt_());
    return;
  }
  const at::Tensor used_variance = at::empty_like(used_mean);
  batch_statistics(x.const_data_ptr<float>(), shape, used_mean.data_ptr<float>(), used_variance.data_ptr<float>());
  inv_std.copy_((used_variance + eps).rsqrt_());
  const auto rows = static_cast<double>(shape.rows);
  mean.value.mul_(1 - momentum).add_(used_mean, momentum);
  variance.value.mul_(1 - momentum).add_(used_variance, momentum * rows / std::max(1.0, rows - 1));
}

at::Tensor BatchNorm::plain(const at::Tensor& x, const at::Tensor& addend, bool relu, const Pass& pass) const {
  const bool of_batch = pass.training && !frozen;
  struct Saved {
    at::Tensor mean, inv_std;
  };
  const auto saved = std::make_shared<Saved>();
  const auto forward = [&] {
    at::Tensor y;
    std::tie(y, saved->mean, saved->inv_std) =
        at::native_batch_norm(x, weight.value, bias.value, mean.value, variance.value, of_batch, momentum, eps);
    return y;
  };
  const BatchNorm self = *this;
  at::Tensor y = differentiable(x, forward, [=](const at::Tensor& dy, bool input_wanted) {
    const auto [dx, dw, db] =
        at::native_batch_norm_backward(dy, x, self.weight.value, self.mean.value, self.variance.value, saved->mean,
                                       saved->inv_std, of_batch, self.eps, {input_wanted, true, true});
    self.gradients->contribute(self.bias.slot, [&, &db = db](at::Tensor& to, bool add) { store(to, db, add); });
    self.gradients->contribute(self.weight.slot, [&, &dw = dw](at::Tensor& to, bool add) { store(to, dw, add); });
    return dx;
  });
  if (addend.defined()) y = y + addend;
  return relu ? at::relu(y) : y;
}

}  // namespace mlbench::framework::torch_framework
