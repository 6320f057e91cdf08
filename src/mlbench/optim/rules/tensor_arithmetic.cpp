#include <algorithm>
#include <vector>

#include "mlbench/optim/rules/adam_on_gpu.h"
#include "mlbench/optim/rules/arithmetic.h"

// These are LibTorch's in-place operations, with product and sum apart: add_(x, factor) would be one fused operation.

namespace mlbench::optim {

namespace {

// Temporary tensors are as long as a part.
constexpr int64_t kPart = int64_t{1} << 22;

template <typename Body>
void for_each_part(int64_t elements, Body&& body) {
  for (int64_t first = 0; first < elements; first += kPart) {
    const int64_t count = std::min(kPart, elements - first);
    body([first, count](const at::Tensor& flat) { return flat.narrow(0, first, count); });
  }
}

// gradient_scale * gradient + weight_decay * parameter
at::Tensor scaled_gradient(const at::Tensor& gradient, const at::Tensor& parameter, float scale, float weight_decay) {
  at::Tensor d = at::mul(gradient, scale);
  if (weight_decay != 0) d.add_(at::mul(parameter, weight_decay));
  return d;
}

void sgd_of_tensors(FlatTensors& tensors, at::Tensor& momentum, const SgdCoefficients& c) {
  for_each_part(tensors.parameters.numel(), [&](const auto& part) {
    at::Tensor p = part(tensors.parameters);
    at::Tensor d = scaled_gradient(part(tensors.gradients), p, c.gradient_scale, c.weight_decay);
    if (c.momentum != 0) {
      at::Tensor buffer = part(momentum);
      if (c.first) {
        buffer.copy_(d);
      } else {
        buffer.mul_(c.momentum).add_(d.mul(c.keep));
      }
      d = c.nesterov ? d.add_(at::mul(buffer, c.momentum)) : buffer;
    }
    p.sub_(at::mul(d, c.lr));
  });
}

// A correctly rounded root. A GPU's root of float32 is one; of MKL's, LibTorch's on the CPU, only that of float64 is.
at::Tensor root_of(const at::Tensor& x) { return x.is_cpu() ? x.to(at::kDouble).sqrt_().to(at::kFloat) : x.sqrt(); }

void adam_of_tensors(FlatTensors& tensors, AdamState& state, const AdamCoefficients& c) {
  // This is a tensor because on a GPU LibTorch divides by a number by multiplying with its inverse.
  const at::Tensor correction2 = at::full({}, c.correction2, state.exp_avg.options());
  for_each_part(tensors.parameters.numel(), [&](const auto& part) {
    at::Tensor p = part(tensors.parameters), m = part(state.exp_avg), v = part(state.exp_avg_sq);
    const bool in_one_kernel = p.is_cuda() && !state.max_exp_avg_sq.defined() && c.shrink == 1;
    if (in_one_kernel) return adam_on_gpu({p, part(tensors.gradients), m, v}, c);
    const at::Tensor d = scaled_gradient(part(tensors.gradients), p, c.gradient_scale, c.weight_decay);
    if (c.shrink != 1) p.mul_(c.shrink);
    m.mul_(c.beta1).add_(at::mul(d, c.new_share1));
    v.mul_(c.beta2).add_(at::mul(d, d).mul_(c.new_share2));
    at::Tensor u = v;
    if (state.max_exp_avg_sq.defined()) {
      u = part(state.max_exp_avg_sq);
      u.copy_(at::where(u < v, v, u));
    }
    p.sub_(at::div(m, root_of(u).div_(correction2).add_(c.eps)).mul_(c.step_size));
  });
}

// Joins ranges without padding between them: most tensors fill their last 64 bytes, and there are hundreds.
std::vector<std::pair<int64_t, int64_t>> joined_ranges(const FlatLayout& layout) {
  std::vector<std::pair<int64_t, int64_t>> joined;  // offset, count
  for (const FlatRange& range : layout.ranges) {
    if (!range.trainable) continue;
    if (!joined.empty() && joined.back().first + joined.back().second == range.offset) {
      joined.back().second += range.count;
    } else {
      joined.emplace_back(range.offset, range.count);
    }
  }
  return joined;
}

double sum_of_squares_of_tensor(const at::Tensor& flat, const FlatLayout& layout) {
  at::Tensor sum = at::zeros({}, flat.options().dtype(at::kDouble));
  for (const auto& [offset, count] : joined_ranges(layout)) {
    const at::Tensor range = flat.narrow(0, offset, count);
    for_each_part(count, [&](const auto& part) { sum.add_(part(range).to(at::kDouble).square_().sum()); });
  }
  return sum.item<double>();
}

void blend_tensors(at::Tensor& average, const at::Tensor& value, float share) {
  for_each_part(average.numel(), [&](const auto& part) {
    at::Tensor to = part(average);
    to.add_(at::sub(part(value), to).mul_(share));
  });
}

void swap_tensors(at::Tensor& one, at::Tensor& other) {
  for_each_part(one.numel(), [&](const auto& part) {
    at::Tensor first = part(one), second = part(other);
    const at::Tensor kept = first.clone();
    first.copy_(second);
    second.copy_(kept);
  });
}

}  // namespace

const Arithmetic kTensorArithmetic{sgd_of_tensors, adam_of_tensors, sum_of_squares_of_tensor, blend_tensors,
                                   swap_tensors};

}  // namespace mlbench::optim
