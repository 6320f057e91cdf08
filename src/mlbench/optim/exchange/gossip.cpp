#include "mlbench/optim/exchange/gossip.h"

namespace mlbench::optim {

namespace {

constexpr int kGossipTag = 7;

}  // namespace

GossipExchange::GossipExchange(const ExchangeContext& context, const GossipOptions& options)
    : NeighbourExchange(context, options.every),
      bytes_(static_cast<uint64_t>(context.layout.parameter_count()) * sizeof(float)),
      graph_(options.graph, MixingDemand::kDoublyStochastic, context.comm.rank(), context.comm.size()) {
  require_no_coder(context, "gossip");
  require_host_memory(context, "gossip");
}

uint64_t GossipExchange::bytes_per_mixing() const { return bytes_ * graph_.mixing(0).to.size(); }

uint64_t GossipExchange::after_update(FlatTensors& tensors) {
  if (comm_.size() == 1 || !mixes_behind_this_update()) return 0;
  const Mixing mixing = graph_.mixing(rounds_++);
  mix(mixing, comm_.rank(), exchange_with(comm_, mixing.to, mixing.from, tensors.parameters, kGossipTag),
      tensors.parameters);
  return bytes_ * mixing.to.size();
}

void GossipExchange::export_state(NamedState& state) const {
  NeighbourExchange::export_state(state);
  state.scalars["exchange/rounds"] = rounds_;
}

void GossipExchange::import_state(const NamedState& state) {
  NeighbourExchange::import_state(state);
  rounds_ = state.integer("exchange/rounds");
}

}  // namespace mlbench::optim
