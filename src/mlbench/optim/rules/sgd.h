#pragma once

// Stochastic gradient descent as PyTorch defines it (torch.optim.SGD):
//   d = gradient_scale * gradient + weight_decay * p
//   buffer = d in the first step, else momentum * buffer + (1 - dampening) * d
//   d = buffer, or with nesterov d + momentum * buffer
//   p = p - lr * d
// The rule makes one pass over the flat buffers.

#include "mlbench/base/flat_layout.h"
#include "mlbench/optim/optimizer.h"

namespace mlbench::optim {

struct SgdOptions {
  double momentum = 0;
  double dampening = 0;
  bool nesterov = false;
  double weight_decay = 0;
};

class SgdRule final : public UpdateRule {
 public:
  // For tensors in `memory`; null: in the host's. Throws UserError for negative momentum or weight decay, and for
  // nesterov without momentum or with dampening.
  SgdRule(const SgdOptions& options, FlatLayout layout, SeparateMemory* memory = nullptr);
  bool updates_parts() const override { return true; }
  void update(FlatTensors& tensors, double lr, double gradient_scale) override;
  // The keys are "optimizer/momentum_steps" and, with momentum, "optimizer/momentum/<parameter>".
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;

 private:
  SgdOptions options_;
  FlatLayout layout_;
  SeparateMemory* memory_;
  at::Tensor momentum_;  // flat; undefined without momentum
  int64_t steps_ = 0;
};

}  // namespace mlbench::optim
