#pragma once

// Adam (Kingma & Ba 2015, algorithm 1) as PyTorch defines it (torch.optim.Adam), where t is the step, counted from 1:
//   d = gradient_scale * gradient + weight_decay * p         (L2: it passes through the moments)
//   m = beta1 * m + (1 - beta1) * d
//   v = beta2 * v + (1 - beta2) * d^2
//   u = v, or with amsgrad (Reddi et al. 2018) the largest v so far
//   p = p - lr / (1 - beta1^t) * m / (sqrt(u) / sqrt(1 - beta2^t) + eps)
// AdamW (Loshchilov & Hutter 2019, torch.optim.AdamW) has decoupled weight decay: d without it, and p = (1 - lr *
// weight_decay) * p before the step.
// The rule makes one pass over the flat buffers. eps is added to the corrected root, as in algorithm 1.

#include "mlbench/base/flat_layout.h"
#include "mlbench/optim/optimizer.h"
#include "mlbench/optim/rules/arithmetic.h"

namespace mlbench::optim {

struct AdamOptions {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool decoupled = false;  // AdamW
};

class AdamRule final : public UpdateRule {
 public:
  // For tensors in `memory`; null: in the host's. Throws UserError for a beta outside of [0, 1), an eps that is not
  // above 0, and a negative weight decay.
  AdamRule(const AdamOptions& options, FlatLayout layout, SeparateMemory* memory = nullptr);
  bool updates_parts() const override { return true; }
  void update(FlatTensors& tensors, double lr, double gradient_scale) override;
  // The keys are PyTorch's names: "optimizer/adam_steps", "optimizer/exp_avg/<parameter>",
  // "optimizer/exp_avg_sq/<parameter>" and, with amsgrad, "optimizer/max_exp_avg_sq/<parameter>".
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;

 private:
  AdamOptions options_;
  FlatLayout layout_;
  SeparateMemory* memory_;
  AdamState moments_;
  int64_t steps_ = 0;
};

}  // namespace mlbench::optim
