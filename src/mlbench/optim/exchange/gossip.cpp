#include "mlbench/optim/exchange/gossip.h"

#include "mlbench/base/errors.h"

namespace mlbench::optim {

namespace {

constexpr int kTag = 7;

}  // namespace

GossipExchange::GossipExchange(const ExchangeContext& context, const GossipOptions& options)
    : comm_(context.comm),
      bytes_(static_cast<uint64_t>(context.layout.parameter_count()) * sizeof(float)),
      options_(options) {
  if (!context.coder.sends_gradient()) {
    throw UserError("compression '" + context.coder.name() +
                    "' with the pattern gossip, which sends parameters; expected compression \"none\"");
  }
  if (context.memory != nullptr) {
    throw UserError("the pattern gossip sends parameters from the host's memory; expected a framework on the CPU");
  }
  neighbours_of(options.topology, comm_.rank(), comm_.size(), 0);
}

Promise GossipExchange::promise() const {
  if (comm_.size() == 1) return {true, true, 0};
  Promise promise{false, false, std::nullopt};
  if (options_.every == 1) {
    promise.bytes_per_step = bytes_ * neighbours_of(options_.topology, comm_.rank(), comm_.size(), 0).size();
  }
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
  if (comm_.size() == 1 || ++updates_ % options_.every != 0) return 0;
  const std::vector<int> neighbours = neighbours_of(options_.topology, comm_.rank(), comm_.size(), rounds_++);
  const at::Tensor own = tensors.parameters.clone();
  const std::vector<at::Tensor> received = exchange_with(comm_, neighbours, own, kTag);
  // In the order of ranks, so that a complete graph gives all ranks the same bits.
  at::Tensor& sum = tensors.parameters;
  sum.zero_();
  size_t next = 0;
  for (int rank = 0; rank < comm_.size(); ++rank) {
    if (rank == comm_.rank()) {
      sum.add_(own);
    } else if (next < neighbours.size() && neighbours[next] == rank) {
      sum.add_(received[next++]);
    }
  }
  sum.div_(static_cast<double>(neighbours.size() + 1));
  return bytes_ * neighbours.size();
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
