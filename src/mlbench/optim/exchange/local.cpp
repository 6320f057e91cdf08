#include "mlbench/optim/exchange/local.h"

#include "mlbench/base/errors.h"
#include "mlbench/optim/rules/flat_state.h"

namespace mlbench::optim {

namespace {

const std::string kLocalSteps = "exchange/local_steps";
const std::string kAnchor = "exchange/anchor";
const std::string kOuterMomentum = "exchange/outer_momentum";

}  // namespace

LocalExchange::LocalExchange(const ExchangeContext& context, const LocalOptions& options)
    : comm_(context.comm),
      coder_(context.coder),
      layout_(context.layout),
      memory_(context.memory),
      options_(options),
      sum_(context) {
  if (options.outer_nesterov && options.outer_momentum == 0) {
    throw UserError("outer_nesterov needs an outer_momentum above 0; given outer_momentum 0");
  }
}

Promise LocalExchange::promise() const { return {false, comm_.size() == 1, std::nullopt}; }

void LocalExchange::begin(const compress::StepContext& step, FlatTensors& tensors) {
  step_ = step;
  tensors_ = &tensors;
  if (!is_local()) {
    coder_.begin(step);
    return;
  }
  if (anchor_.defined()) return;
  anchor_ = tensors.parameters.clone();
  if (options_.outer_momentum != 0) momentum_ = at::zeros_like(anchor_);
}

uint64_t LocalExchange::finish() {
  MLBENCH_CHECK(tensors_ != nullptr, "an exchange that has not begun");
  FlatTensors& tensors = *tensors_;
  tensors_ = nullptr;
  if (!is_local()) return sum_.sum(tensors.gradients);
  take_mean_of_own_samples(step_, tensors);
  return 0;
}

uint64_t LocalExchange::after_update(FlatTensors& tensors) {
  if (!is_local() || ++local_steps_ % options_.every != 0) return 0;
  compress::StepContext outer = step_;
  outer.share = 1 / static_cast<double>(comm_.size());
  at::Tensor difference = at::sub(anchor_, tensors.parameters).mul_(outer.share);
  coder_.begin(outer);
  const uint64_t bytes = sum_.sum(difference);
  outer_step(tensors, difference);
  return bytes;
}

void LocalExchange::outer_step(FlatTensors& tensors, at::Tensor difference) {
  if (momentum_.defined()) {
    momentum_.mul_(options_.outer_momentum).add_(difference);
    difference = options_.outer_nesterov ? difference.add_(momentum_, options_.outer_momentum) : momentum_;
  }
  anchor_.sub_(difference, options_.outer_lr);
  tensors.parameters.copy_(anchor_);
}

void LocalExchange::export_state(NamedState& state) const {
  state.scalars[kLocalSteps] = local_steps_;
  if (anchor_.defined()) export_flat(kAnchor, layout_, anchor_, memory_, state);
  if (momentum_.defined()) export_flat(kOuterMomentum, layout_, momentum_, memory_, state);
}

void LocalExchange::import_state(const NamedState& state) {
  local_steps_ = state.integer(kLocalSteps);
  if (local_steps_ == 0) return;
  anchor_ = at::zeros({layout_.parameter_elements}, options_beside(memory_));
  import_flat(kAnchor, layout_, state, memory_, anchor_);
  if (options_.outer_momentum == 0) return;
  momentum_ = at::zeros_like(anchor_);
  import_flat(kOuterMomentum, layout_, state, memory_, momentum_);
}

Json LocalExchange::effective() const { return effective_as_a_whole(coder_.one_collective()); }

}  // namespace mlbench::optim
