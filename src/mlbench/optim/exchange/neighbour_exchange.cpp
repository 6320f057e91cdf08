#include "mlbench/optim/exchange/neighbour_exchange.h"

#include <fmt/format.h>

#include "mlbench/base/errors.h"

namespace mlbench::optim {

namespace {

const std::string kUpdates = "exchange/updates";

}  // namespace

Promise NeighbourExchange::promise() const {
  if (comm_.size() == 1) return {true, true, 0};
  Promise promise{false, false, std::nullopt};
  if (every_ == 1) promise.bytes_per_step = bytes_per_mixing();
  return promise;
}

void NeighbourExchange::begin(const compress::StepContext& step, FlatTensors& tensors) {
  step_ = step;
  tensors_ = &tensors;
}

uint64_t NeighbourExchange::finish() {
  MLBENCH_CHECK(tensors_ != nullptr, "an exchange that has not begun");
  take_mean_of_own_samples(step_, *tensors_);
  tensors_ = nullptr;
  return 0;
}

void NeighbourExchange::export_state(NamedState& state) const { state.scalars[kUpdates] = updates_; }

void NeighbourExchange::import_state(const NamedState& state) { updates_ = state.integer(kUpdates); }

Json NeighbourExchange::effective() const { return effective_as_a_whole(false); }

void require_host_memory(const ExchangeContext& context, const char* pattern) {
  if (context.memory == nullptr) return;
  throw UserError(
      fmt::format("the pattern {} sends parameters from the host's memory; expected a framework on the CPU", pattern));
}

void require_no_coder(const ExchangeContext& context, const char* pattern) {
  if (context.coder.sends_gradient()) return;
  throw UserError(
      fmt::format("compression '{}' with the pattern {}, which sends parameters; expected compression \"none\"",
                  context.coder.name(), pattern));
}

}  // namespace mlbench::optim
