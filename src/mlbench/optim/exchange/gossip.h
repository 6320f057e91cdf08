#pragma once

// "gossip": ranks step by the gradients of their own samples, and every `every` steps each replaces its parameters by a
// weighted mean of its own and its neighbours' (D-PSGD, Lian et al. 2017; graph.h has the weights).
//
// Bytes per rank in one step of `every`: 4 * parameters per neighbour; none in the others. Parameters go as they are:
// without a coder.

#include "mlbench/optim/exchange/graph.h"
#include "mlbench/optim/exchange/neighbour_exchange.h"

namespace mlbench::optim {

struct GossipOptions {
  GraphOptions graph = {};
  int64_t every = 1;
};

class GossipExchange final : public NeighbourExchange {
 public:
  // Throws UserError for a coder other than "none", and for a graph that is not of so many ranks or whose matrix is not
  // doubly stochastic.
  GossipExchange(const ExchangeContext& context, const GossipOptions& options);
  uint64_t after_update(FlatTensors& tensors) override;
  // Exports "exchange/rounds", too.
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;

 private:
  uint64_t bytes_per_mixing() const override;

  uint64_t bytes_;  // of the parameters, without padding
  Graph graph_;
  int64_t rounds_ = 0;
};

}  // namespace mlbench::optim
