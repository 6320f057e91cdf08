#include "mlbench/optim/rules/adam.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/optim/rules/flat_state.h"

namespace mlbench::optim {

namespace {

const std::string kAdamSteps = "optimizer/adam_steps";
const std::string kExpAvg = "optimizer/exp_avg";
const std::string kExpAvgSq = "optimizer/exp_avg_sq";
const std::string kMaxExpAvgSq = "optimizer/max_exp_avg_sq";

}  // namespace

AdamRule::AdamRule(const AdamOptions& options, FlatLayout layout, SeparateMemory* memory)
    : options_(options), layout_(std::move(layout)), memory_(memory) {
  const auto require = [](bool right, const char* name, double given, const char* expected) {
    if (!right) throw UserError(fmt::format("Adam: {} is {}; expected {}", name, given, expected));
  };
  require(options.beta1 >= 0 && options.beta1 < 1, "the first of betas", options.beta1, "0 or more and less than 1");
  require(options.beta2 >= 0 && options.beta2 < 1, "the second of betas", options.beta2, "0 or more and less than 1");
  // An element whose gradient was always zero would be divided by zero.
  require(options.eps > 0, "eps", options.eps, "more than 0");
  require(options.weight_decay >= 0, "weight_decay", options.weight_decay, "0 or more");
  const auto zeros = [this] { return at::zeros({layout_.parameter_elements}, options_beside(memory_)); };
  moments_ = {zeros(), zeros(), options.amsgrad ? zeros() : at::Tensor()};
}

void AdamRule::update(FlatTensors& tensors, double lr, double gradient_scale) {
  MLBENCH_CHECK(tensors.parameters.numel() == layout_.parameter_elements &&
                    tensors.gradients.numel() == layout_.parameter_elements,
                "flat buffers of another layout");
  ++steps_;
  const auto t = static_cast<double>(steps_);
  arithmetic_for(memory_).adam(tensors, moments_,
                               {.step_size = static_cast<float>(lr / (1 - std::pow(options_.beta1, t))),
                                .beta1 = static_cast<float>(options_.beta1),
                                .new_share1 = static_cast<float>(1 - options_.beta1),
                                .beta2 = static_cast<float>(options_.beta2),
                                .new_share2 = static_cast<float>(1 - options_.beta2),
                                .correction2 = static_cast<float>(std::sqrt(1 - std::pow(options_.beta2, t))),
                                .eps = static_cast<float>(options_.eps),
                                .weight_decay = options_.decoupled ? 0 : static_cast<float>(options_.weight_decay),
                                .gradient_scale = static_cast<float>(gradient_scale),
                                .shrink = options_.decoupled ? static_cast<float>(1 - lr * options_.weight_decay) : 1});
}

void AdamRule::export_state(NamedState& state) const {
  state.scalars[kAdamSteps] = steps_;
  const auto store = [&](const std::string& name, const at::Tensor& moment) {
    if (moment.defined()) export_flat(name, layout_, moment, memory_, state);
  };
  store(kExpAvg, moments_.exp_avg);
  store(kExpAvgSq, moments_.exp_avg_sq);
  store(kMaxExpAvgSq, moments_.max_exp_avg_sq);
}

void AdamRule::import_state(const NamedState& state) {
  steps_ = state.integer(kAdamSteps);
  const auto restore = [&](const std::string& name, at::Tensor& moment) {
    if (moment.defined()) import_flat(name, layout_, state, memory_, moment);
  };
  restore(kExpAvg, moments_.exp_avg);
  restore(kExpAvgSq, moments_.exp_avg_sq);
  restore(kMaxExpAvgSq, moments_.max_exp_avg_sq);
}

}  // namespace mlbench::optim
