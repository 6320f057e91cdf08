#pragma once

// "deep_gradient": deep gradient compression (Lin et al. 2018). The momentum is in the coder, before elements are
// chosen, so that the rule must have none. With g this rank's share of the gradient, clipped, and u, v = 0 at first:
//   u <- momentum u + g;  v <- v + u,  or with nesterov  u <- momentum (u + g);  v <- v + u + g
// The s elements of v of largest magnitude are sent; where they were sent, u and v become zero (momentum correction and
// masking). What comes out is the sum over ranks.
//
//   clipping  of the mean gradient of this rank's samples, to the norm clip / sqrt(k) for k ranks; clip 0: none
//   warm-up   in the first `warmup_steps` steps the share falls exponentially from 0.25 to `share`
//
// Gathered: 8 s bytes per rank and step.

#include "mlbench/compress/coder.h"

namespace mlbench::compress {

struct DeepGradientOptions {
  double share = 0.001;  // s over the number of parameters; s is at least 1
  double momentum = 0.9;
  bool nesterov = false;
  double clip = 0;
  int64_t warmup_steps = 0;
};

class DeepGradientCoder final : public GradientCoder {
 public:
  DeepGradientCoder(const DeepGradientOptions& options, const CoderContext& context);
  std::string name() const override { return "deep_gradient"; }
  bool has_momentum() const override { return true; }
  // Empty with a warm-up.
  std::optional<uint64_t> bytes_per_step() const override;
  void begin(const StepContext& step) override { step_ = step; }
  Payload encode(int round, const at::Tensor& gradient) override;
  void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) override;
  // "coder/momentum" (u), "coder/velocity" (v)
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;

 private:
  int64_t sent_at(int64_t step) const;

  DeepGradientOptions options_;
  FlatLayout layout_;
  int size_;
  at::Tensor momentum_, velocity_;
  StepContext step_;
};

}  // namespace mlbench::compress
