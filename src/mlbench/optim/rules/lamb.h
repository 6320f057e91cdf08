#pragma once

// LAMB (You et al. 2020, algorithm 2), t = step from 1, with d = gradient_scale * gradient:
//   m = beta1 * m + (1 - beta1) * d;  v = beta2 * v + (1 - beta2) * d^2
//   r = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay * w
//   trust = |w| / |r|, or 1 where w or r is zero;  w = w - lr * trust * r
// by tensor. Vectors and the parameters of norms have trust 1 and no weight decay.

#include "mlbench/base/flat_layout.h"
#include "mlbench/optim/optimizer.h"

namespace mlbench::optim {

struct LambOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0;
};

class LambRule final : public UpdateRule {
 public:
  // `memory` is where the tensors are; null: the host's.
  LambRule(const LambOptions& options, FlatLayout layout, SeparateMemory* memory = nullptr);
  void update(FlatTensors& tensors, double lr, double gradient_scale) override;
  // "optimizer/lamb_steps", "optimizer/exp_avg/<parameter>", "optimizer/exp_avg_sq/<parameter>"
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;

 private:
  LambOptions options_;
  FlatLayout layout_;
  SeparateMemory* memory_;
  at::Tensor exp_avg_, exp_avg_sq_;
  int64_t steps_ = 0;
};

}  // namespace mlbench::optim
