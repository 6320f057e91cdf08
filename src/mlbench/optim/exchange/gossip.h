#pragma once

// "gossip": ranks step by the gradients of their own samples, and every `every` steps each replaces its parameters by a
// weighted mean of its own and its neighbours' (D-PSGD, Lian et al. 2017). The weights of a topology form a matrix W
// that is symmetric, has no negative element and rows that sum to 1, so that the mean over all ranks stays as it is:
//
//   ring         both neighbours: 1 / 3 each (with two ranks 1 / 2)
//   torus        those above, below, left and right, on a grid as square as the number of ranks allows:
//                1 / (1 + degree)
//   complete     all others: 1 / k each
//   exponential  one peer per step, rank xor 2^t, t = 0, 1, ... in turn: 1 / 2; for numbers of ranks that are powers
//                of two (Assran et al. 2019, undirected)
//
// Bytes per rank in one step of `every`: 4 * parameters per neighbour; none in the others. Parameters go as they are:
// without a coder.

#include <vector>

#include "mlbench/optim/exchange/exchange.h"

namespace mlbench::optim {

enum class Topology { kRing, kTorus, kComplete, kExponential };

// The ranks that `rank` of `size` exchanges with in the round `round`, in ascending order. Throws UserError where the
// topology has no such number of ranks.
std::vector<int> neighbours_of(Topology topology, int rank, int size, int64_t round);

struct GossipOptions {
  Topology topology = Topology::kRing;
  int64_t every = 1;
};

class GossipExchange final : public Exchange {
 public:
  // Throws UserError for a coder other than "none", and for a number of ranks that the topology has not.
  GossipExchange(const ExchangeContext& context, const GossipOptions& options);
  Promise promise() const override;
  void begin(const compress::StepContext& step, FlatTensors& tensors) override;
  uint64_t finish() override;
  uint64_t after_update(FlatTensors& tensors) override;
  // "exchange/updates", "exchange/rounds"
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;
  Json effective() const override;

 private:
  comm::Communicator& comm_;
  uint64_t bytes_;  // of the parameters, without padding
  GossipOptions options_;
  compress::StepContext step_;
  FlatTensors* tensors_ = nullptr;
  int64_t updates_ = 0, rounds_ = 0;
};

}  // namespace mlbench::optim
