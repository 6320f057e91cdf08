#include "mlbench/optim/rules/lion.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/vector_clones.h"
#include "mlbench/optim/rules/flat_state.h"

namespace mlbench::optim {

namespace {

constexpr int64_t kGrain = 32768;
const std::string kLionMomentum = "optimizer/exp_avg";

float sign_of(float value) { return static_cast<float>((value > 0) - (value < 0)); }

MLBENCH_VECTOR_CLONES void update_part(float* __restrict p, const float* __restrict g, float* __restrict momentum,
                                       int64_t count, const LionCoefficients& coefficients) {
  const LionCoefficients c = coefficients;
  for (int64_t i = 0; i < count; ++i) {
    const float d = c.gradient_scale * g[i];
    const float direction = c.beta1 * momentum[i] + c.new_share1 * d;
    const float sign = direction > 0 ? 1.0F : direction < 0 ? -1.0F : 0.0F;
    p[i] = c.shrink * p[i] - c.lr * sign;
    momentum[i] = c.beta2 * momentum[i] + c.new_share2 * d;
  }
}

void update_tensors(FlatTensors& tensors, at::Tensor& momentum, const LionCoefficients& c) {
  const at::Tensor d = at::mul(tensors.gradients, c.gradient_scale);
  const at::Tensor direction = at::mul(momentum, c.beta1).add_(at::mul(d, c.new_share1)).sign_();
  tensors.parameters.mul_(c.shrink).sub_(at::mul(direction, c.lr));
  momentum.mul_(c.beta2).add_(at::mul(d, c.new_share2));
}

}  // namespace

void lion_update_reference(float* parameters, const float* gradients, float* momentum, int64_t count,
                           const LionCoefficients& c) {
  for (int64_t i = 0; i < count; ++i) {
    const float d = c.gradient_scale * gradients[i];
    const float direction = c.beta1 * momentum[i] + c.new_share1 * d;
    parameters[i] = c.shrink * parameters[i] - c.lr * sign_of(direction);
    momentum[i] = c.beta2 * momentum[i] + c.new_share2 * d;
  }
}

void lion_update(float* parameters, const float* gradients, float* momentum, int64_t count,
                 const LionCoefficients& coefficients) {
  at::parallel_for(0, count, kGrain, [&](int64_t begin, int64_t end) {
    update_part(parameters + begin, gradients + begin, momentum + begin, end - begin, coefficients);
  });
}

LionRule::LionRule(const LionOptions& options, FlatLayout layout, SeparateMemory* memory)
    : options_(options), layout_(std::move(layout)), memory_(memory) {
  for (const double beta : {options.beta1, options.beta2}) {
    if (!(beta >= 0 && beta < 1)) {
      throw UserError(fmt::format("Lion: one of betas is {}; expected 0 or more and less than 1", beta));
    }
  }
  momentum_ = at::zeros({layout_.parameter_elements}, options_beside(memory_));
}

void LionRule::update(FlatTensors& tensors, double lr, double gradient_scale) {
  const LionCoefficients coefficients{.lr = static_cast<float>(lr),
                                      .beta1 = static_cast<float>(options_.beta1),
                                      .new_share1 = static_cast<float>(1 - options_.beta1),
                                      .beta2 = static_cast<float>(options_.beta2),
                                      .new_share2 = static_cast<float>(1 - options_.beta2),
                                      .shrink = static_cast<float>(1 - lr * options_.weight_decay),
                                      .gradient_scale = static_cast<float>(gradient_scale)};
  if (memory_ != nullptr) return update_tensors(tensors, momentum_, coefficients);
  lion_update(tensors.parameters.data_ptr<float>(), tensors.gradients.const_data_ptr<float>(),
              momentum_.data_ptr<float>(), tensors.parameters.numel(), coefficients);
}

void LionRule::export_state(NamedState& state) const { export_flat(kLionMomentum, layout_, momentum_, memory_, state); }

void LionRule::import_state(const NamedState& state) { import_flat(kLionMomentum, layout_, state, memory_, momentum_); }

}  // namespace mlbench::optim
