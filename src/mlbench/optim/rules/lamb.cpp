#include "mlbench/optim/rules/lamb.h"

#include <cmath>
#include <utility>

#include "mlbench/optim/rules/flat_state.h"
#include "mlbench/optim/rules/range_norms.h"

namespace mlbench::optim {

namespace {

const std::string kLambSteps = "optimizer/lamb_steps";
const std::string kLambExpAvg = "optimizer/exp_avg";
const std::string kLambExpAvgSq = "optimizer/exp_avg_sq";

}  // namespace

LambRule::LambRule(const LambOptions& options, FlatLayout layout, SeparateMemory* memory)
    : options_(options),
      layout_(std::move(layout)),
      memory_(memory),
      exp_avg_(at::zeros({layout_.parameter_elements}, options_beside(memory))),
      exp_avg_sq_(at::zeros({layout_.parameter_elements}, options_beside(memory))) {}

void LambRule::update(FlatTensors& tensors, double lr, double gradient_scale) {
  ++steps_;
  const auto t = static_cast<double>(steps_);
  const at::Tensor d = at::mul(tensors.gradients, gradient_scale);
  exp_avg_.mul_(options_.beta1).add_(d, 1 - options_.beta1);
  exp_avg_sq_.mul_(options_.beta2).addcmul_(d, d, 1 - options_.beta2);
  at::Tensor step = at::div(exp_avg_sq_, 1 - std::pow(options_.beta2, t)).sqrt_().add_(options_.eps);
  step = at::div(exp_avg_, step).div_(1 - std::pow(options_.beta1, t));
  const std::vector<double> weights = range_norms(tensors.parameters, layout_);
  if (options_.weight_decay != 0) {
    for (const FlatRange& range : layout_.ranges) {
      if (!range.trainable || !scales_by_norm(range)) continue;
      step.narrow(0, range.offset, range.count)
          .add_(tensors.parameters.narrow(0, range.offset, range.count), options_.weight_decay);
    }
  }
  const std::vector<double> steps = range_norms(step, layout_);
  for (size_t i = 0; i < layout_.ranges.size(); ++i) {
    const FlatRange& range = layout_.ranges[i];
    if (!range.trainable) continue;
    const bool scaled = scales_by_norm(range) && weights[i] > 0 && steps[i] > 0;
    const double trust = scaled ? weights[i] / steps[i] : 1;
    tensors.parameters.narrow(0, range.offset, range.count).sub_(step.narrow(0, range.offset, range.count), lr * trust);
  }
}

void LambRule::export_state(NamedState& state) const {
  state.scalars[kLambSteps] = steps_;
  export_flat(kLambExpAvg, layout_, exp_avg_, memory_, state);
  export_flat(kLambExpAvgSq, layout_, exp_avg_sq_, memory_, state);
}

void LambRule::import_state(const NamedState& state) {
  steps_ = state.integer(kLambSteps);
  import_flat(kLambExpAvg, layout_, state, memory_, exp_avg_);
  import_flat(kLambExpAvgSq, layout_, state, memory_, exp_avg_sq_);
}

}  // namespace mlbench::optim
