#pragma once

// "server": a synchronous parameter server (Li et al. 2014, with the consistency model "sequential"). The first
// `servers` ranks are servers beside being workers: rank 0 alone by default, all of them for a server on each host, as
// BytePS has it. The flat buffers are cut into a part per server, of ceil(elements / servers) elements. In each step
// all ranks send every server their share of the gradient of its part. The server adds shares up in the order of ranks,
// its rule updates that part, and it sends the new parameters to all other ranks. Shares are weighted by their samples,
// so that the sum is the mean of the whole batch. What comes out is what "centralized" gives, but for the order of
// additions; only servers have state of the rule, for their part.
//
// Bytes per rank and step, of n parameters of which the rank serves m (0 where it is no server), without padding:
//
//   4 (n - m) for gradients, 4 m (k - 1) for parameters
//
// Each call begins all messages before it waits for one, so that no order of ranks makes them wait for each other. A
// server has room for k - 1 shares of its part.

#include "mlbench/optim/exchange/exchange.h"

namespace mlbench::optim {

struct ServerOptions {
  int64_t servers = 1;  // no more are used than there are ranks
};

class ServerExchange final : public Exchange {
 public:
  // Throws UserError for a coder other than "none", and for tensors in separate memory.
  ServerExchange(const ExchangeContext& context, const ServerOptions& options);
  Promise promise() const override;
  // Empty for a rank that is no server: a part of 0 elements.
  std::optional<FlatPart> own_part() const override;
  void begin(const compress::StepContext& step, FlatTensors& tensors) override;
  uint64_t finish() override;
  uint64_t after_update(FlatTensors& tensors) override;
  Json effective() const override;

 private:
  bool alone() const { return comm_.size() == 1; }
  const FlatPart& own() const { return parts_[static_cast<size_t>(comm_.rank())]; }
  uint64_t gradient_bytes() const;
  uint64_t parameter_bytes() const;

  comm::Communicator& comm_;
  std::vector<FlatPart> parts_;          // of each rank
  int64_t parameters_, own_parameters_;  // of the model, and of the part, without padding
  std::vector<at::Tensor> shares_;       // of the part, of each rank; undefined for the rank itself
  FlatTensors* tensors_ = nullptr;
};

}  // namespace mlbench::optim
