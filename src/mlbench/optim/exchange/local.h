#pragma once

// "local": ranks step by the gradients of their own samples, and average their parameters every `every` steps (local
// SGD, Stich 2019). Before the step `start_step` they exchange gradients in every step (post-local SGD, Lin et al.
// 2020).
//
// An average is a step of an outer optimizer (outer_optimizer.h) by the mean of (x - y_i), where y_i are the parameters
// of rank i. The difference goes through the coder, so that it may be compressed. SlowMo's momentum is that of d / lr;
// with a constant rate both are the same. What the inner rule remembers stays each rank's own. With every = 1, weights
// are averaged in each step instead of gradients, by the number of ranks (MLBench's agg_grad = False).
//
// Bytes: the coder's, in one step of `every` and in those before `start_step`; none in the others.

#include "mlbench/optim/exchange/coded_sum.h"
#include "mlbench/optim/exchange/outer_optimizer.h"

namespace mlbench::optim {

struct LocalOptions {
  int64_t every = 8;
  int64_t start_step = 0;
  OuterOptions outer = {};
};

class LocalExchange final : public Exchange {
 public:
  LocalExchange(const ExchangeContext& context, const LocalOptions& options);
  Promise promise() const override;
  void begin(const compress::StepContext& step, FlatTensors& tensors) override;
  uint64_t finish() override;
  uint64_t after_update(FlatTensors& tensors) override;
  // "exchange/local_steps"; once the first local step was made, the outer optimizer's.
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;
  Json effective() const override;

 private:
  bool is_local() const { return step_.step >= start_step_; }

  comm::Communicator& comm_;
  compress::GradientCoder& coder_;
  int64_t every_, start_step_;
  CodedSum sum_;
  OuterOptimizer outer_;
  compress::StepContext step_;
  FlatTensors* tensors_ = nullptr;
  int64_t local_steps_ = 0;
};

}  // namespace mlbench::optim
