#pragma once

// Dion (Ahn et al. 2025, arXiv 2504.05295, algorithm 1), for matrices of hidden layers; AdamW (adam.h) for vectors,
// norms and embeddings. A convolution is a matrix of (outputs) x (all else). M is the momentum, zero at first. Q is the
// basis of columns x r, where r is rank_fraction of the smaller extent, rounded up. With d = gradient_scale * gradient:
//   B = M + d
//   P = the orthonormal factor of B Q (QR in float64);  R = B^T P      (one power iteration)
//   M = B - (1 - momentum) * P R^T      (error feedback: what is not of the rank r stays whole in the momentum)
//   Q = R, each column divided by its norm + 1e-8
//   w = (1 - lr * weight_decay) * w - lr * sqrt(rows / columns) * P Q^T
// The factor sqrt(rows / columns) is that of the authors' code. While B is zero, M, Q and the step are left out. The
// first Q is drawn from a fixed key, and is the same on all ranks and in all runs. The rate of AdamW is lr * adam_rate.
// The authors also send factors instead of gradients; here the pattern and the coder say what is sent.

#include "mlbench/base/flat_layout.h"
#include "mlbench/optim/rules/adam.h"

namespace mlbench::optim {

struct DionOptions {
  double momentum = 0.95;
  double rank_fraction = 0.25;
  double weight_decay = 0.01;
  double adam_rate = 1;
  AdamOptions adam = {.decoupled = true};  // its weight decay is Dion's
};

class DionRule final : public UpdateRule {
 public:
  // `memory` is where the tensors are; null: the host's. Throws UserError for a momentum outside of [0, 1), and for a
  // rank_fraction that is not above 0.
  DionRule(const DionOptions& options, const FlatLayout& layout, SeparateMemory* memory = nullptr);
  void update(FlatTensors& tensors, double lr, double gradient_scale) override;
  // "optimizer/momentum/<parameter>" and "optimizer/basis/<parameter>" of the matrices, and what AdamRule has of the
  // others.
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;

 private:
  // The new weights of one matrix, with its momentum and basis.
  at::Tensor step_of(const at::Tensor& weights, const at::Tensor& gradient, at::Tensor momentum, at::Tensor basis,
                     double lr) const;

  DionOptions options_;
  SeparateMemory* memory_;
  FlatLayout matrices_, others_;  // the ranges of either, in the whole flat buffer
  FlatLayout bases_;              // of each matrix its Q, one behind the other
  at::Tensor momentum_, basis_;
  AdamRule adam_;
};

}  // namespace mlbench::optim
