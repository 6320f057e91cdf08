#pragma once

// "async_server": an asynchronous parameter server with bounded staleness (stale synchronous parallel, Ho et al. 2013,
// with eager reads; without the bound it is Downpour SGD, Dean et al. 2012). Rank 0 keeps the weights x beside being a
// worker. A worker i steps by the mean gradient of its own samples at its view y_i of x. It sends what its rule
// changed, times its share p_i of the batch, and goes on. The server adds updates up in the order in which they arrive,
// each once, and answers each with x:
//
//   u_i = p_i (what the rule changed at y_i);   x <- x + u_i
//   y_i <- the newest answer + those of i's own updates that are not in it
//
// The papers add whole updates. With shares, k ranks together step as far as one does, and a view that lacks nothing
// makes SGD compute what "centralized" does, but for rounding.
//
// The staleness of a view, with which step c (from 0) begins, is c - m, where the view has the updates of all ranks
// from their first m steps. It is never above s, the option `staleness`: the server keeps the answer to update c until
// x has all updates of the steps up to c - s, and a rank whose newest answer is too old for its next step waits. With s
// = 0 all ranks wait for each other in every step. staleness() has how many steps had which.
//
// Promised is that bound, and that each update is applied once. The weights depend on when messages arrive, so that
// nothing can be repeated to the bit. Before ranks evaluate, store or end (settle), x gets all updates of all ranks,
// and becomes every rank's view. Each rank has a state of the rule of its own.
//
// Bytes per step, of n parameters without padding on k ranks:
//
//   rank 0    (k - 1) (4 n + 16): the answers to the updates of the step, whenever they go out
//   others    4 n
//
// In settle rank 0 sends 4 n (k - 1) more. Rank 0 receives and answers within its own calls, those of ready() among
// them, so no thread is added and every back end will do. The server has room for as many updates and answers as are
// under way: (s + 1) (k - 1) of each at most.

#include <exception>

#include "mlbench/optim/exchange/exchange.h"

namespace mlbench::optim {

struct AsyncServerOptions {
  int64_t staleness = 3;  // at most, in steps
};

class AsyncServerExchange final : public Exchange {
 public:
  // What a rank does for its view: rank 0 serves, the others ask.
  class Side;

  // Throws UserError for a coder other than "none", and for tensors in separate memory.
  AsyncServerExchange(const ExchangeContext& context, const AsyncServerOptions& options);
  ~AsyncServerExchange() override;
  Promise promise() const override;
  void begin(const compress::StepContext& step, FlatTensors& tensors) override;
  bool listens() const override { return side_ != nullptr; }
  void ready(int64_t first, int64_t count) override;
  uint64_t finish() override;
  void abandon() noexcept override;
  uint64_t after_update(FlatTensors& tensors) override;
  uint64_t settle(FlatTensors& tensors) override;
  std::vector<int64_t> staleness() const override { return histogram_; }
  Json effective() const override;

 private:
  uint64_t bytes_per_step() const;

  comm::Communicator& comm_;
  const int64_t bound_;
  const uint64_t parameter_bytes_;  // without padding
  std::unique_ptr<Side> side_;      // null for a rank alone
  compress::StepContext step_;
  FlatTensors* tensors_ = nullptr;
  at::Tensor before_;               // the view at which the gradient is computed
  int64_t steps_ = 0;               // that this object has made
  bool settled_ = true;             // no step was made since settle()
  std::exception_ptr error_;        // of ready()
  std::vector<int64_t> histogram_;  // steps by the staleness of their view, 0 to the bound; empty for a rank alone
};

}  // namespace mlbench::optim
