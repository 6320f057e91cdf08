#pragma once

// "push_sum": stochastic gradient push (Assran et al. 2019, algorithm 1). Messages go one way, so that nobody waits for
// an answer. Each rank steps by the gradients of its own samples, and every `every` steps shares its values among
// itself and those whom it sends to: the columns of the matrix P sum to 1, its rows need not. A push-sum weight w, 1 at
// first, goes the same way and undoes what the rows lack. With x the values of rank i:
//
//   x_i <- x_i + u_i(z_i);   x_i <- sum over j of P_ij x_j;   w_i <- sum over j of P_ij w_j;   z_i = x_i / w_i
//
// The parameters are z, at which gradients are computed and which are evaluated. u is what the rule changes at z,
// momentum and weight decay included. The sums over all ranks of x and of w, which is the number of ranks, stay as they
// are. Nothing but w is kept: x is w z.
//
// The topology "exponential" has one peer per round: rank i sends to i + 2^t, t = 0, 1, ... in turn as long as 2^t is
// below the number of ranks, which may be any. There w stays 1.
//
// Bytes per rank in one step of `every`: 4 * parameters + 8 per rank that is sent to; none in the others.

#include "mlbench/optim/exchange/graph.h"
#include "mlbench/optim/exchange/neighbour_exchange.h"

namespace mlbench::optim {

struct PushSumOptions {
  GraphOptions graph = {};
  int64_t every = 1;
};

class PushSumExchange final : public NeighbourExchange {
 public:
  // Throws UserError for a coder other than "none", for tensors in separate memory, and for a graph that is not of so
  // many ranks or whose columns do not sum to 1.
  PushSumExchange(const ExchangeContext& context, const PushSumOptions& options);
  void begin(const compress::StepContext& step, FlatTensors& tensors) override;
  uint64_t after_update(FlatTensors& tensors) override;
  // Exports "exchange/rounds", too, and "exchange/push_sum_weight".
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;

 private:
  uint64_t bytes_per_mixing() const override;
  // Mixes x and w. Returns the bytes.
  uint64_t push(at::Tensor& values);

  uint64_t message_bytes_;  // without padding
  Graph graph_;
  at::Tensor before_;  // z before the rule's step; undefined where w is 1
  double weight_ = 1;  // w
  int64_t rounds_ = 0;
};

}  // namespace mlbench::optim
