#include "mlbench/optim/rules/sgd.h"

#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/optim/rules/arithmetic.h"
#include "mlbench/optim/rules/flat_state.h"

namespace mlbench::optim {

namespace {

const std::string kMomentumSteps = "optimizer/momentum_steps";
const std::string kMomentum = "optimizer/momentum";

}  // namespace

SgdRule::SgdRule(const SgdOptions& options, FlatLayout layout, SeparateMemory* memory)
    : options_(options), layout_(std::move(layout)), memory_(memory) {
  const auto refuse = [](const std::string& text) { throw UserError("SGD: " + text); };
  if (!(options.momentum >= 0)) refuse("momentum is " + std::to_string(options.momentum) + "; expected 0 or more");
  if (!(options.weight_decay >= 0)) {
    refuse("weight_decay is " + std::to_string(options.weight_decay) + "; expected 0 or more");
  }
  if (options.nesterov && (options.momentum == 0 || options.dampening != 0)) {
    refuse("nesterov needs a momentum above 0 and dampening 0; given momentum " + std::to_string(options.momentum) +
           ", dampening " + std::to_string(options.dampening));
  }
  if (options.momentum != 0) momentum_ = at::zeros({layout_.parameter_elements}, options_beside(memory_));
}

void SgdRule::update(FlatTensors& tensors, double lr, double gradient_scale) {
  MLBENCH_CHECK(tensors.parameters.numel() == layout_.parameter_elements &&
                    tensors.gradients.numel() == layout_.parameter_elements,
                "flat buffers of another layout");
  arithmetic_for(memory_).sgd(tensors, momentum_,
                              {.lr = static_cast<float>(lr),
                               .momentum = static_cast<float>(options_.momentum),
                               .keep = static_cast<float>(1.0 - options_.dampening),
                               .weight_decay = static_cast<float>(options_.weight_decay),
                               .nesterov = options_.nesterov,
                               .first = steps_ == 0,
                               .gradient_scale = static_cast<float>(gradient_scale)});
  ++steps_;
}

void SgdRule::export_state(NamedState& state) const {
  state.scalars[kMomentumSteps] = steps_;
  if (momentum_.defined()) export_flat(kMomentum, layout_, momentum_, memory_, state);
}

void SgdRule::import_state(const NamedState& state) {
  steps_ = state.integer(kMomentumSteps);
  if (momentum_.defined()) import_flat(kMomentum, layout_, state, memory_, momentum_);
}

}  // namespace mlbench::optim
