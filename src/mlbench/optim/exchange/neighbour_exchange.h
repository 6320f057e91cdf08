#pragma once

// What the patterns "gossip", "choco" and "push_sum" share. Ranks step by the gradients of their own samples, and every
// `every` steps they mix parameters with their neighbours in a graph, in the host's memory.

#include "mlbench/optim/exchange/exchange.h"

namespace mlbench::optim {

class NeighbourExchange : public Exchange {
 public:
  Promise promise() const final;
  void begin(const compress::StepContext& step, FlatTensors& tensors) override;
  uint64_t finish() final;
  // "exchange/updates"
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;
  Json effective() const final;

 protected:
  NeighbourExchange(const ExchangeContext& context, int64_t every) : comm_(context.comm), every_(every) {}
  // Bytes that this rank gives to the transport where ranks mix. Called for more than one rank, with `every` 1.
  virtual uint64_t bytes_per_mixing() const = 0;
  // Counts a step of the rule. Returns whether ranks mix behind it.
  bool mixes_behind_this_update() { return ++updates_ % every_ == 0; }

  comm::Communicator& comm_;
  compress::StepContext step_;
  int64_t updates_ = 0;

 private:
  int64_t every_;
  FlatTensors* tensors_ = nullptr;
};

// Throws UserError for tensors in separate memory; `pattern` is the name that its text has.
void require_host_memory(const ExchangeContext& context, const char* pattern);
// Throws UserError for a coder other than "none", likewise.
void require_no_coder(const ExchangeContext& context, const char* pattern);

}  // namespace mlbench::optim
