#pragma once

// Lion (Chen et al. 2023, algorithm 2), with d = gradient_scale * gradient:
//   p = (1 - lr * weight_decay) * p - lr * sign(beta1 * m + (1 - beta1) * d)
//   m = beta2 * m + (1 - beta2) * d
// The sign of zero is zero. One pass over the flat buffers.

#include "mlbench/base/flat_layout.h"
#include "mlbench/optim/optimizer.h"

namespace mlbench::optim {

struct LionOptions {
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
};

struct LionCoefficients {
  float lr = 0;
  float beta1 = 0, new_share1 = 1;  // 1 - beta1
  float beta2 = 0, new_share2 = 1;  // 1 - beta2
  float shrink = 1;                 // 1 - lr * weight_decay
  float gradient_scale = 1;
};

// The arithmetic on plain arrays, one element at a time in the order above, each operation rounded by itself.
void lion_update_reference(float* parameters, const float* gradients, float* momentum, int64_t count,
                           const LionCoefficients& coefficients);
// Gives the bits of the reference, vectorised and on all threads of the process's pool.
void lion_update(float* parameters, const float* gradients, float* momentum, int64_t count,
                 const LionCoefficients& coefficients);

class LionRule final : public UpdateRule {
 public:
  // `memory` is where the tensors are; null: the host's. Throws UserError where a beta lies outside of [0, 1).
  LionRule(const LionOptions& options, FlatLayout layout, SeparateMemory* memory = nullptr);
  bool updates_parts() const override { return true; }
  void update(FlatTensors& tensors, double lr, double gradient_scale) override;
  // "optimizer/exp_avg/<parameter>"
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;

 private:
  LionOptions options_;
  FlatLayout layout_;
  SeparateMemory* memory_;
  at::Tensor momentum_;
};

}  // namespace mlbench::optim
