#include "mlbench/optim/exchange/local.h"

#include "mlbench/base/errors.h"

namespace mlbench::optim {

namespace {

const std::string kLocalSteps = "exchange/local_steps";

}  // namespace

LocalExchange::LocalExchange(const ExchangeContext& context, const LocalOptions& options)
    : comm_(context.comm),
      coder_(context.coder),
      every_(options.every),
      start_step_(options.start_step),
      sum_(context),
      outer_(options.outer, context.layout, context.memory) {}

Promise LocalExchange::promise() const { return {false, comm_.size() == 1, std::nullopt}; }

void LocalExchange::begin(const compress::StepContext& step, FlatTensors& tensors) {
  step_ = step;
  tensors_ = &tensors;
  if (is_local()) {
    outer_.begin(tensors.parameters);
  } else {
    coder_.begin(step);
  }
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
  if (!is_local() || ++local_steps_ % every_ != 0) return 0;
  compress::StepContext outer = step_;
  outer.share = 1 / static_cast<double>(comm_.size());
  at::Tensor difference = at::sub(outer_.anchor(), tensors.parameters).mul_(outer.share);
  coder_.begin(outer);
  const uint64_t bytes = sum_.sum(difference);
  outer_.step({0, difference.numel()}, difference);
  tensors.parameters.copy_(outer_.anchor());
  return bytes;
}

void LocalExchange::export_state(NamedState& state) const {
  state.scalars[kLocalSteps] = local_steps_;
  outer_.export_state(state);
}

void LocalExchange::import_state(const NamedState& state) {
  local_steps_ = state.integer(kLocalSteps);
  if (local_steps_ > 0) outer_.import_state(state);
}

Json LocalExchange::effective() const { return effective_as_a_whole(coder_.one_collective()); }

}  // namespace mlbench::optim
