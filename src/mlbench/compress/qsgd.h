#pragma once

// "qsgd": stochastic quantisation (Alistarh et al. 2017, section 3.1) with numbers of a fixed width. Each tensor is
// divided into buckets of `bucket` elements. Of a bucket v with the norm |v| (Euclidean, or the largest magnitude), an
// element becomes |v| * sign(v_i) * l / s, where s = 2^(bits - 1) - 1 and l is one of the two whole numbers around
// s * |v_i| / |v|, drawn so that the expectation is v_i. What comes out is the sum over ranks, without bias.
//
// Gathered: 4 bytes per bucket and bits / 8 per element. Draws are a function of (seed, rank, step, element).

#include "mlbench/compress/coder.h"

namespace mlbench::compress {

struct QsgdOptions {
  int bits = 4;          // of an element, sign included: 2 to 8
  int64_t bucket = 512;  // elements
  bool largest = true;   // the norm is the largest magnitude; else the Euclidean one
};

class QsgdCoder final : public GradientCoder {
 public:
  QsgdCoder(const QsgdOptions& options, const CoderContext& context);
  std::string name() const override { return "qsgd"; }
  int rounds() const override { return 1; }
  bool decodes_alone() const override { return true; }
  bool exact() const override { return false; }
  std::optional<uint64_t> bytes_per_step() const override { return static_cast<uint64_t>(payload_bytes_); }
  void begin(const StepContext& step) override { step_ = step.step; }
  Payload encode(int round, const at::Tensor& gradient) override;
  void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) override;
  void export_state(NamedState&) const override {}
  void import_state(const NamedState&) override {}

 private:
  // A bucket's norm, then its packed elements, begin at `payload` in the bytes. No bucket crosses a tensor's end.
  struct Bucket {
    int64_t offset = 0, count = 0, payload = 0;
  };

  QsgdOptions options_;
  uint64_t seed_;
  int rank_;
  std::vector<Bucket> buckets_;
  int64_t payload_bytes_ = 0;
  int64_t step_ = 0;
};

}  // namespace mlbench::compress
