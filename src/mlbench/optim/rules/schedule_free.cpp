#include "mlbench/optim/rules/schedule_free.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/optim/rules/flat_state.h"

namespace mlbench::optim {

namespace {

const std::string kFreeSteps = "optimizer/schedule_free_steps";
const std::string kLargestLr = "optimizer/largest_lr";
const std::string kWeightSum = "optimizer/weight_sum";
const std::string kZ = "optimizer/z";
const std::string kY = "optimizer/y";
const std::string kSecondMoment = "optimizer/exp_avg_sq";

}  // namespace

ScheduleFreeRule::ScheduleFreeRule(const ScheduleFreeOptions& options, FlatLayout layout, SeparateMemory* memory)
    : options_(options), layout_(std::move(layout)), memory_(memory) {
  if (!(options.beta1 > 0 && options.beta1 < 1)) {
    throw UserError(
        fmt::format("schedule-free: the first of betas is {}; expected more than 0 and less than 1", options.beta1));
  }
  if (!(options.beta2 >= 0 && options.beta2 < 1)) {
    throw UserError(
        fmt::format("schedule-free: the second of betas is {}; expected 0 or more and less than 1", options.beta2));
  }
  const auto flat = [&] { return at::zeros({layout_.parameter_elements}, options_beside(memory_)); };
  z_ = flat();
  y_ = flat();
  if (options_.adam) second_moment_ = flat();
}

void ScheduleFreeRule::update(FlatTensors& tensors, double lr, double gradient_scale) {
  at::Tensor& y = tensors.parameters;
  if (steps_++ == 0) z_.copy_(y);
  at::Tensor d = at::mul(tensors.gradients, gradient_scale);
  if (options_.adam) {
    second_moment_.mul_(options_.beta2).addcmul_(d, d, 1 - options_.beta2);
    const double correction = 1 - std::pow(options_.beta2, static_cast<double>(steps_));
    d.div_(at::div(second_moment_, correction).sqrt_().add_(options_.eps));
  }
  d.add_(y, options_.weight_decay);
  largest_lr_ = std::max(largest_lr_, lr);
  const double weight = largest_lr_ * largest_lr_;
  weight_sum_ += weight;
  const double c = weight_sum_ > 0 ? weight / weight_sum_ : 0;
  y.lerp_(z_, c).add_(d, lr * (options_.beta1 * (1 - c) - 1));
  z_.sub_(d, lr);
}

void ScheduleFreeRule::swap(FlatTensors& tensors) {
  if (steps_ == 0) return;
  if (!swapped_) {
    y_.copy_(tensors.parameters);
    tensors.parameters.lerp_(z_, 1 - 1 / options_.beta1);
  } else {
    tensors.parameters.copy_(y_);
  }
  swapped_ = !swapped_;
}

void ScheduleFreeRule::export_state(NamedState& state) const {
  state.scalars[kFreeSteps] = steps_;
  state.scalars[kLargestLr] = largest_lr_;
  state.scalars[kWeightSum] = weight_sum_;
  MLBENCH_CHECK(swapped_ || steps_ == 0,
                "the state of a schedule-free rule is exported while its average is the parameters");
  export_flat(kZ, layout_, z_, memory_, state);
  export_flat(kY, layout_, y_, memory_, state);
  if (options_.adam) export_flat(kSecondMoment, layout_, second_moment_, memory_, state);
}

void ScheduleFreeRule::import_state(const NamedState& state) {
  steps_ = state.integer(kFreeSteps);
  largest_lr_ = state.real(kLargestLr);
  weight_sum_ = state.real(kWeightSum);
  import_flat(kZ, layout_, state, memory_, z_);
  import_flat(kY, layout_, state, memory_, y_);
  if (options_.adam) import_flat(kSecondMoment, layout_, state, memory_, second_moment_);
  swapped_ = steps_ > 0;
}

}  // namespace mlbench::optim
