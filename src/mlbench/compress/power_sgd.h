#pragma once

// "power_sgd": PowerSGD (Vogels et al. 2019, algorithms 1 and 2) by tensor, as PyTorch's powerSGD_hook has it. A tensor
// of at least two dimensions is a matrix M of n rows (its first dimension) and m columns, of the rank r = min(n, m,
// rank). With the error memory e, Q from the step before (or drawn from (seed, step), the same on all ranks) and sums
// over the ranks:
//   M <- g + e
//   P <- sum(M Q), orthogonalised by modified Gram-Schmidt
//   Q <- sum(M^T P)
//   what comes out: P Q^T;   e <- M - share * P Q^T
// `share` is this rank's weight in the mean (1 / k with equal batches, as in the paper). Vectors, and matrices for
// which (n + m) * r * min_compression >= n * m, are summed as they are, with the first round.
//
// With `batched`, all tensors together are one square matrix, as PyTorch's batched_powerSGD_hook has it: back to back,
// vectors too, with zeros behind them; n = m = ceil(sqrt(elements)). It is always compressed. As in PyTorch, e is kept
// for the zeros, too. PyTorch has a matrix for each bucket, whose tensors stand in the order in which gradients are
// computed; here all are one, in the model's order.
//
// Bytes per step and rank: 4 * (n + m) * r per matrix and 4 per other element, in two sums that depend on each other;
// batched 8 * n * r. Before the step `start_step` the whole gradient is summed: 4 bytes per element.

#include "mlbench/compress/coder.h"
#include "mlbench/compress/error_memory.h"
#include "mlbench/compress/low_rank.h"

namespace mlbench::compress {

struct PowerSgdOptions {
  int64_t rank = 1;
  bool error_feedback = true;
  bool warm_start = true;  // Q is that of the compressed step before; false: drawn in each step
  int64_t start_step = 0;
  double min_compression = 2;
  bool batched = false;
};

class PowerSgdCoder final : public GradientCoder {
 public:
  PowerSgdCoder(const PowerSgdOptions& options, const CoderContext& context);
  std::string name() const override { return "power_sgd"; }
  int rounds() const override { return 2; }
  // Empty where the gradient is sent as it is for some steps.
  std::optional<uint64_t> bytes_per_step() const override;
  void begin(const StepContext& step) override { step_ = step; }
  Payload encode(int round, const at::Tensor& gradient) override;
  void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) override;
  // "coder/error", "coder/name" and, with warm start, "coder/q" and "coder/steps".
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;

 private:
  using Matrix = LowRankParts::Matrix;

  bool compresses() const { return step_.step >= options_.start_step; }

  PowerSgdOptions options_;
  uint64_t seed_;
  int64_t elements_;  // of the gradient, without padding
  std::optional<SquareBatch> batch_;
  LowRankParts parts_;
  ErrorMemory memory_;
  StepContext step_;
  int64_t steps_ = 0;     // that were compressed
  at::Tensor p_, q_;      // of all matrices
  at::Tensor corrected_;  // g + e of this step, as parts_ has it
};

}  // namespace mlbench::compress
