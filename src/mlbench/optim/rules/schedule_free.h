#pragma once

// Schedule-free SGD and AdamW (Defazio et al. 2024). Gradients are computed at y, a mean between the steps z of the
// base rule and their running average x, which is what is evaluated and stored. With t from 1, z_1 = x_1 = y_1 and
// g = gradient_scale * gradient at y_t:
//   d = g                                                       SGD
//   v = beta2 v + (1 - beta2) g^2;  d = g / (sqrt(v / (1 - beta2^t)) + eps)    AdamW
//   d = d + weight_decay * y_t
//   z = z - lr * d
//   x = (1 - c) x + c z,  c = w_t / (w_1 + ... + w_t),  w_t = the largest rate so far, squared
//   y = (1 - beta1) z + beta1 x
// As in the authors' code, y is updated in its place and x is never kept: x = y + (1 - 1 / beta1) (z - y).
//
// The rate needs no decay; a warm-up helps. Running statistics of batch norms are those of y, as in the authors' code
// before it computes them anew.

#include <cstdint>

#include "mlbench/base/flat_layout.h"
#include "mlbench/optim/optimizer.h"

namespace mlbench::optim {

struct ScheduleFreeOptions {
  double beta1 = 0.9;
  double weight_decay = 0;
  bool adam = false;  // the base rule: AdamW, else SGD
  double beta2 = 0.999;
  double eps = 1e-8;
};

class ScheduleFreeRule final : public UpdateRule {
 public:
  // For tensors in `memory`; null: in the host's. Throws UserError for a beta1 outside of (0, 1) or a beta2 outside of
  // [0, 1).
  ScheduleFreeRule(const ScheduleFreeOptions& options, FlatLayout layout, SeparateMemory* memory = nullptr);
  void update(FlatTensors& tensors, double lr, double gradient_scale) override;
  bool swaps() const override { return true; }
  void swap(FlatTensors& tensors) override;
  // "optimizer/schedule_free_steps", "optimizer/largest_lr", "optimizer/weight_sum", "optimizer/z/<parameter>",
  // "optimizer/y/<parameter>" and of AdamW "optimizer/exp_avg_sq/<parameter>".
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;

 private:
  ScheduleFreeOptions options_;
  FlatLayout layout_;
  SeparateMemory* memory_;
  int64_t steps_ = 0;
  double largest_lr_ = 0, weight_sum_ = 0;
  at::Tensor z_, second_moment_;
  at::Tensor y_;  // what was in the parameters, while x is in them
  bool swapped_ = false;
};

}  // namespace mlbench::optim
