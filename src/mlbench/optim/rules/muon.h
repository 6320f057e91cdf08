#pragma once

// Muon (Jordan et al. 2024) as torch.optim.Muon has it, for matrices of hidden layers; AdamW (adam.h) for vectors,
// norms and embeddings. A convolution is a matrix of (outputs) x (all else). With d = gradient_scale * gradient:
//   b = momentum * b + (1 - momentum) * d
//   u = b, or with nesterov momentum * b + (1 - momentum) * d
//   O = u orthogonalised: five Newton-Schulz steps X <- a X + (b (X X^T) + c (X X^T)^2) X from u / max(|u|, 1e-7), with
//       (a, b, c) = (3.4445, -4.7750, 2.0315); of the transpose where that has fewer rows
//   w = (1 - lr * weight_decay) * w - lr * scale * O
// The steps are in float32; PyTorch has them in bfloat16. `scale` is sqrt(max(1, rows / columns)) ("original"), or
// 0.2 * sqrt(max(rows, columns)) ("match_rms_adamw", Liu et al. 2025), which makes updates as large as AdamW's, so that
// one rate serves both. The rate of AdamW is lr * adam_rate.
//
// Which rank orthogonalises which matrix is said by matrix_work.h. Where ranks have parts of the gradient (pattern
// "sharded"), each has the momenta and AdamW's moments of its part alone.

#include "mlbench/base/flat_layout.h"
#include "mlbench/optim/rules/adam.h"
#include "mlbench/optim/rules/matrix_work.h"

namespace mlbench::optim {

struct MuonOptions {
  double momentum = 0.95;
  bool nesterov = true;
  double weight_decay = 0.1;
  bool match_rms_adamw = true;
  int64_t newton_schulz_steps = 5;
  double adam_rate = 1;
  AdamOptions adam = {.decoupled = true};  // its weight decay is Muon's
};

// `matrix` in two dimensions, float32, finite; in one of the same shape all singular values become about 1.
at::Tensor orthogonalised(const at::Tensor& matrix, int64_t steps);

struct MatrixDistribution {
  MatrixWork work = MatrixWork::kReplicated;
  comm::Communicator* comm = nullptr;  // null: there is one rank
  std::optional<FlatPart> part;        // what update() gets of the flat buffers; empty: all
};

class MuonRule final : public UpdateRule {
 public:
  // `layout` is that of the whole buffers; `memory` is where the tensors are; null: the host's.
  MuonRule(const MuonOptions& options, const FlatLayout& layout, SeparateMemory* memory = nullptr,
           const MatrixDistribution& distribution = {});
  bool updates_parts() const override { return work_.of_parts(); }
  bool collective() const override { return work_.collective(); }
  uint64_t bytes_per_step() const override { return work_.bytes_per_step(); }
  void update(FlatTensors& tensors, double lr, double gradient_scale) override;
  // "optimizer/momentum/<parameter>" of the matrices, and what AdamRule has of the others.
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;

 private:
  double scale_of(const FlatRange& matrix) const;

  MuonOptions options_;
  SeparateMemory* memory_;
  FlatLayout matrices_;      // the ranges of matrices, in the whole flat buffer
  FlatLayout own_, others_;  // what update() gets of matrices and of other tensors
  DistributedMatrices work_;
  at::Tensor momentum_, values_;  // values: directions, then steps, then new weights
  AdamRule adam_;
};

}  // namespace mlbench::optim
