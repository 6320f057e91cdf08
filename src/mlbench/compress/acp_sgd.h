#pragma once

// "acp_sgd": ACP-SGD (Zhang et al. 2023, alternate compressed PowerSGD) by tensor: of PowerSGD's two factors one is
// computed and sent per step, so that a step waits for one sum instead of two. Matrices, vectors and the first Q are
// those of power_sgd.h. With this rank's error memory e, and M <- g + e, compressed steps alternate, from the first on:
//   odd    Q <- that of the step before (at first drawn), orthogonalised by modified Gram-Schmidt
//          P_own <- M Q;    e <- M - P_own Q^T;   P <- sum(P_own);   what comes out: P Q^T
//   even   P <- that of the step before, orthogonalised
//          Q_own <- M^T P;  e <- M - P Q_own^T;   Q <- sum(Q_own);   what comes out: P Q^T
// As in the paper, e is what this rank's own factor leaves out; PowerSGD has the mean factor there.
//
// Bytes per step and rank: of each matrix of n rows and m columns 4 * n * r in odd steps and 4 * m * r in even ones; 4
// per other element. Before the step `start_step` the whole gradient is summed: 4 bytes per element.

#include "mlbench/compress/coder.h"
#include "mlbench/compress/error_memory.h"
#include "mlbench/compress/low_rank.h"

namespace mlbench::compress {

struct AcpSgdOptions {
  int64_t rank = 1;
  bool error_feedback = true;
  int64_t start_step = 0;
  double min_compression = 2;
};

class AcpSgdCoder final : public GradientCoder {
 public:
  AcpSgdCoder(const AcpSgdOptions& options, const CoderContext& context);
  std::string name() const override { return "acp_sgd"; }
  // Empty: steps differ.
  std::optional<uint64_t> bytes_per_step() const override { return std::nullopt; }
  void begin(const StepContext& step) override { step_ = step; }
  Payload encode(int round, const at::Tensor& gradient) override;
  void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) override;
  // "coder/error", "coder/name", "coder/steps", and the last step's factor: "coder/p" or "coder/q".
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;

 private:
  using Matrix = LowRankParts::Matrix;

  bool compresses() const { return step_.step >= options_.start_step; }
  // Whether P is what the next compressed step sends.
  bool sends_p() const { return steps_ % 2 == 0; }
  int64_t sent_elements() const { return sends_p() ? parts_.p_elements() : parts_.q_elements(); }

  AcpSgdOptions options_;
  uint64_t seed_;
  int64_t elements_;  // of the gradient, without padding
  LowRankParts parts_;
  ErrorMemory memory_;
  StepContext step_;
  int64_t steps_ = 0;  // that were compressed
  at::Tensor p_, q_;   // of all matrices
};

}  // namespace mlbench::compress
