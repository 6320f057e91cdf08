#include "mlbench/optim/rules/adam.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/optim/rules/adam_kernel.h"
#include "mlbench/optim/rules/flat_state.h"

namespace mlbench::optim {

namespace {

const std::string kAdamSteps = "optimizer/adam_steps";
const std::string kExpAvg = "optimizer/exp_avg";
const std::string kExpAvgSq = "optimizer/exp_avg_sq";
const std::string kMaxExpAvgSq = "optimizer/max_exp_avg_sq";

}  // namespace

AdamRule::AdamRule(const AdamOptions& options, FlatLayout layout) : options_(options), layout_(std::move(layout)) {
  const auto require = [](bool right, const char* name, double given, const char* expected) {
    if (!right) throw UserError(fmt::format("Adam: {} is {}; expected {}", name, given, expected));
  };
  require(options.beta1 >= 0 && options.beta1 < 1, "the first of betas", options.beta1, "0 or more and less than 1");
  require(options.beta2 >= 0 && options.beta2 < 1, "the second of betas", options.beta2, "0 or more and less than 1");
  // An element whose gradient was always zero would be divided by zero.
  require(options.eps > 0, "eps", options.eps, "more than 0");
  require(options.weight_decay >= 0, "weight_decay", options.weight_decay, "0 or more");
  exp_avg_ = at::zeros({layout_.parameter_elements}, at::kFloat);
  exp_avg_sq_ = at::zeros({layout_.parameter_elements}, at::kFloat);
  if (options.amsgrad) max_exp_avg_sq_ = at::zeros({layout_.parameter_elements}, at::kFloat);
}

void AdamRule::update(FlatTensors& tensors, double lr, double gradient_scale) {
  MLBENCH_CHECK(tensors.parameters.numel() == layout_.parameter_elements &&
                    tensors.gradients.numel() == layout_.parameter_elements,
                "flat buffers of another layout");
  ++steps_;
  const auto t = static_cast<double>(steps_);
  const AdamMoments moments{exp_avg_.data_ptr<float>(), exp_avg_sq_.data_ptr<float>(),
                            max_exp_avg_sq_.defined() ? max_exp_avg_sq_.data_ptr<float>() : nullptr};
  adam_update(tensors.parameters.data_ptr<float>(), tensors.gradients.data_ptr<float>(), moments,
              layout_.parameter_elements,
              {.step_size = static_cast<float>(lr / (1 - std::pow(options_.beta1, t))),
               .beta1 = static_cast<float>(options_.beta1),
               .new_share1 = static_cast<float>(1 - options_.beta1),
               .beta2 = static_cast<float>(options_.beta2),
               .new_share2 = static_cast<float>(1 - options_.beta2),
               .correction2 = static_cast<float>(std::sqrt(1 - std::pow(options_.beta2, t))),
               .eps = static_cast<float>(options_.eps),
               .weight_decay = static_cast<float>(options_.weight_decay),
               .gradient_scale = static_cast<float>(gradient_scale)});
}

void AdamRule::export_state(NamedState& state) const {
  state.scalars[kAdamSteps] = steps_;
  export_flat(kExpAvg, layout_, exp_avg_, state);
  export_flat(kExpAvgSq, layout_, exp_avg_sq_, state);
  if (max_exp_avg_sq_.defined()) export_flat(kMaxExpAvgSq, layout_, max_exp_avg_sq_, state);
}

void AdamRule::import_state(const NamedState& state) {
  steps_ = state.integer(kAdamSteps);
  import_flat(kExpAvg, layout_, state, exp_avg_);
  import_flat(kExpAvgSq, layout_, state, exp_avg_sq_);
  if (max_exp_avg_sq_.defined()) import_flat(kMaxExpAvgSq, layout_, state, max_exp_avg_sq_);
}

}  // namespace mlbench::optim
