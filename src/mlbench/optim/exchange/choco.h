#pragma once

// "choco": CHOCO-SGD (Koloskova, Stich, Jaggi 2019, algorithm 2, with the two vectors of its appendix). Ranks step by
// the gradients of their own samples. Every `every` steps they move towards their neighbours by compressed differences.
// With x the rank's parameters, h its public copy, s the mean of its own and its neighbours' copies (weights W_ij of
// graph.h), and C the coder:
//   q_i = C(x_i - h_i), which goes to all neighbours;   h_i <- h_i + q_i;   s_i <- s_i + the sum over j of W_ij q_j
//   x <- x + consensus_rate (s - h)
// At first h = s = x, which is the same on all ranks. The mean of x over all ranks stays as it is.
//
// The coder must give one payload of fixed length that is decoded by itself: top_k, int8 and fp8 without error feedback
// (the difference x - h has it already), qsgd, natural. Bytes per rank in one step of `every`: the payload's per
// neighbour.

#include "mlbench/optim/exchange/graph.h"
#include "mlbench/optim/exchange/neighbour_exchange.h"

namespace mlbench::optim {

struct ChocoOptions {
  GraphOptions graph = {};
  int64_t every = 1;
  double consensus_rate = 0.5;
};

class ChocoExchange final : public NeighbourExchange {
 public:
  // Throws UserError for a coder that does not decode payloads by themselves, for the topology "exponential", whose
  // neighbours change, for a graph that is not symmetric, and for tensors in separate memory.
  ChocoExchange(const ExchangeContext& context, const ChocoOptions& options);
  void begin(const compress::StepContext& step, FlatTensors& tensors) override;
  uint64_t after_update(FlatTensors& tensors) override;
  // Also, from the first step on, "exchange/copy/<parameter>" (h) and "exchange/copies/<parameter>" (s).
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;

 private:
  uint64_t bytes_per_mixing() const override;
  // Decodes `payload` into `decoded_`.
  void decode(const at::Tensor& payload);

  compress::GradientCoder& coder_;
  FlatLayout layout_;
  double consensus_rate_;
  Mixing mixing_;             // of every round
  at::Tensor copy_, copies_;  // h, s; undefined before the first step
  at::Tensor decoded_;
};

}  // namespace mlbench::optim
