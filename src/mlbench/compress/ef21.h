#pragma once

// "ef21": EF21 (Richtarik, Sokolov, Fatkhullin 2021) with the largest elements. Each rank keeps an estimate of its own
// gradient, and sends where the gradient differs most from it:
//   c_i = the s elements of largest magnitude of (g_i - e_i);  e_i <- e_i + c_i
// What comes out is the sum of all estimates, e <- e + sum of c_i, which every rank keeps. All estimates begin at zero.
// Gathered: 8 s bytes per rank and step.

#include "mlbench/compress/coder.h"

namespace mlbench::compress {

class Ef21Coder final : public GradientCoder {
 public:
  // `share` is s over the number of parameters; s is at least 1.
  Ef21Coder(double share, const CoderContext& context);
  std::string name() const override { return "ef21"; }
  std::optional<uint64_t> bytes_per_step() const override { return static_cast<uint64_t>(sent_) * 8; }
  Payload encode(int round, const at::Tensor& gradient) override;
  void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) override;
  // "coder/estimate", "coder/estimates" (the sum)
  void export_state(NamedState& state) const override;
  void import_state(const NamedState& state) override;

 private:
  int64_t sent_;
  at::Tensor estimate_, estimates_;
};

}  // namespace mlbench::compress
