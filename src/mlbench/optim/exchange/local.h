#pragma once

// "local": ranks step by the gradients of their own samples, and average their parameters every `every` steps (local
// SGD, Stich 2019). Before the step `start_step` they exchange gradients in every step (post-local SGD, Lin et al.
// 2020).
//
// An average is a step of an outer optimizer (SlowMo, Wang et al. 2020; DiLoCo, Douillard et al. 2023). With x the
// parameters that all ranks had behind the last average, y_i those of rank i now, k ranks, and b = 0 at first:
//   d = mean of (x - y_i);  b <- outer_momentum * b + d
//   x <- x - outer_lr * b, or with outer_nesterov x - outer_lr * (d + outer_momentum * b)
// By default outer_lr is 1 and outer_momentum 0: x becomes the mean of the y_i. The difference goes through the coder,
// so that it may be compressed. SlowMo's momentum is that of d / lr: with a constant rate both are the same. What the
// inner rule remembers stays each rank's own.
//
// Bytes: the coder's, in one step of `every` and in those before `start_step`; none in the others.

#include "mlbench/optim/exchange/coded_sum.h"

namespace mlbench::optim {

struct LocalOptions {
  int64_t every = 8;
  int64_t start_step = 0;
  double outer_lr = 1;
  double outer_momentum = 0;
  bool outer_nesterov = false;
};

class LocalExchange final : public Exchange {
 public:
  LocalExchange(const ExchangeContext& context, const LocalOptions& options);
  Promise promise() const override;
  void begin(const compress::StepContext& step, FlatTensors& tensors) override;
  uint64_t finish() override;
  uint64_t after_update(FlatTensors& tensors) override;
  // "exchange/local_steps"; once the first local step was made, "exchange/anchor/<parameter>" and, with outer momentum,
  // "exchange/outer_momentum/<parameter>".
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;
  Json effective() const override;

 private:
  bool is_local() const { return step_.step >= options_.start_step; }
  void outer_step(FlatTensors& tensors, at::Tensor difference);

  comm::Communicator& comm_;
  compress::GradientCoder& coder_;
  FlatLayout layout_;
  SeparateMemory* memory_;
  LocalOptions options_;
  CodedSum sum_;
  compress::StepContext step_;
  FlatTensors* tensors_ = nullptr;
  int64_t local_steps_ = 0;
  at::Tensor anchor_;    // x; undefined before the first local step
  at::Tensor momentum_;  // b; undefined before the first local step, and without outer momentum
};

}  // namespace mlbench::optim
