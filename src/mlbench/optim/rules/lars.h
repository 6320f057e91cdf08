#pragma once

// LARS (You et al. 2017, algorithm 1): SGD with momentum whose rate each tensor scales by its own norms. For a matrix
// or an embedding w with the gradient g (times gradient_scale):
//   trust = trust_coefficient * |w| / (|g| + weight_decay * |w|), or 1 where w or g is zero
//   v = momentum * v + lr * trust * (g + weight_decay * w);  w = w - v
// Vectors and the parameters of norms have trust 1 and no weight decay. The rate is inside of the momentum, as in the
// paper, and unlike SGD here and in PyTorch.

#include "mlbench/base/flat_layout.h"
#include "mlbench/optim/optimizer.h"

namespace mlbench::optim {

struct LarsOptions {
  double momentum = 0.9;
  double weight_decay = 0;
  double trust_coefficient = 0.001;
};

class LarsRule final : public UpdateRule {
 public:
  // `memory` is where the tensors are; null: the host's.
  LarsRule(const LarsOptions& options, FlatLayout layout, SeparateMemory* memory = nullptr);
  void update(FlatTensors& tensors, double lr, double gradient_scale) override;
  // "optimizer/momentum_steps", "optimizer/momentum/<parameter>"
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;

 private:
  LarsOptions options_;
  FlatLayout layout_;
  SeparateMemory* memory_;
  at::Tensor momentum_;
  int64_t steps_ = 0;
};

}  // namespace mlbench::optim
