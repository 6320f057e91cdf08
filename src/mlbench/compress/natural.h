#pragma once

// "natural": natural compression (Horvath et al. 2019). Each element becomes one of the two powers of two around it,
// with its sign, drawn so that the expectation is the element. What comes out is the sum over ranks, without bias.
//
// Gathered: 9 bits per element, the exponent and the sign: n bytes and ceil(n / 8) for n elements. An infinite element
// stays infinite, NaN becomes infinite. Draws are a function of (seed, rank, step, element).

#include "mlbench/compress/coder.h"

namespace mlbench::compress {

class NaturalCoder final : public GradientCoder {
 public:
  explicit NaturalCoder(const CoderContext& context);
  std::string name() const override { return "natural"; }
  bool decodes_alone() const override { return true; }
  bool adds_payloads() const override { return true; }
  std::optional<uint64_t> bytes_per_step() const override;
  void begin(const StepContext& step) override { step_ = step.step; }
  Payload encode(int round, const at::Tensor& gradient) override;
  void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) override;

 private:
  uint64_t seed_;
  int rank_;
  std::vector<FlatRange> ranges_;  // the trainable ones
  int64_t elements_ = 0;           // of all ranges
  int64_t step_ = 0;
};

}  // namespace mlbench::compress
