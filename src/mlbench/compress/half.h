#pragma once

// "half": the gradient rounded to 16 bits and summed as such: 2 bytes per element. Rounding is to nearest even; with
// error feedback what rounding a rank's own gradient takes away is added to its next one. What the additions of the sum
// round away is lost.

#include "mlbench/compress/coder.h"
#include "mlbench/compress/error_memory.h"

namespace mlbench::compress {

struct HalfOptions {
  at::ScalarType type = at::kBFloat16;  // or at::kHalf
  bool error_feedback = false;
};

class HalfCoder final : public GradientCoder {
 public:
  HalfCoder(const HalfOptions& options, const CoderContext& context);
  std::string name() const override { return "half"; }
  std::optional<uint64_t> bytes_per_step() const override { return bytes_; }
  Payload encode(int round, const at::Tensor& gradient) override;
  void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) override;
  void export_state(NamedState& state) const override { memory_.export_state(state); }
  void import_state(const NamedState& state) override { memory_.import_state(state); }

 private:
  HalfOptions options_;
  uint64_t bytes_;
  ErrorMemory memory_;
};

}  // namespace mlbench::compress
