#include "mlbench/optim/exchange/gossip.h"

#include "mlbench/base/errors.h"

namespace mlbench::optim {

namespace {

constexpr int kTag = 7;

}  // namespace

GossipExchange::GossipExchange(const ExchangeContext& context, const GossipOptions& options)
    : comm_(context.comm),
      bytes_(static_cast<uint64_t>(context.layout.parameter_count()) * sizeof(float)),
      graph_(options.graph, MixingDemand::kDoublyStochastic, context.comm.rank(), context.comm.size()),
      every_(options.every) {
  if (!context.coder.sends_gradient()) {
    throw UserError("compression '" + context.coder.name() +
                    "' with the pattern gossip, which sends parameters; expected compression \"none\"");
  }
  if (context.memory != nullptr) {
    throw UserError("the pattern gossip sends parameters from the host's memory; expected a framework on the CPU");
  }
}

Promise GossipExchange::promise() const {
  if (comm_.size() == 1) return {true, true, 0};
  Promise promise{false, false, std::nullopt};
  if (every_ == 1) promise.bytes_per_step = bytes_ * graph_.mixing(0).to.size();
  return promise;
}

void GossipExchange::begin(const compress::StepContext& step, FlatTensors& tensors) {
  step_ = step;
  tensors_ = &tensors;
}

uint64_t GossipExchange::finish() {
  MLBENCH_CHECK(tensors_ != nullptr, "an exchange that has not begun");
  take_mean_of_own_samples(step_, *tensors_);
  tensors_ = nullptr;
  return 0;
}

uint64_t GossipExchange::after_update(FlatTensors& tensors) {
  if (comm_.size() == 1 || ++updates_ % every_ != 0) return 0;
  const Mixing mixing = graph_.mixing(rounds_++);
  mix(mixing, comm_.rank(), exchange_with(comm_, mixing.to, mixing.from, tensors.parameters, kTag), tensors.parameters);
  return bytes_ * mixing.to.size();
}

void GossipExchange::export_state(NamedState& state) const {
  state.scalars["exchange/updates"] = updates_;
  state.scalars["exchange/rounds"] = rounds_;
}

void GossipExchange::import_state(const NamedState& state) {
  updates_ = state.integer("exchange/updates");
  rounds_ = state.integer("exchange/rounds");
}

Json GossipExchange::effective() const { return effective_as_a_whole(false); }

}  // namespace mlbench::optim
