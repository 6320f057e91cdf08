#pragma once

// The coder "none": the gradient itself is summed. The coder sends 4 bytes per parameter and rank.

#include "mlbench/compress/coder.h"

namespace mlbench::compress {

class IdentityCoder final : public GradientCoder {
 public:
  explicit IdentityCoder(const FlatLayout& layout);
  std::string name() const override { return "none"; }
  bool sends_gradient() const override { return true; }
  bool exact() const override { return true; }
  std::optional<uint64_t> bytes_per_step() const override { return bytes_; }
  // The payload shares the gradient's memory, so that the sum arrives in place.
  Payload encode(int round, const at::Tensor& gradient) override;
  void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) override;

 private:
  uint64_t bytes_;
};

}  // namespace mlbench::compress
