#pragma once

// Coders that send one bit per element. Payloads are gathered: ceil(n_t / 8) bytes per tensor of n_t elements, and of
// the last two their scales. An element that is zero counts as positive, since a bit has no third value.
//
//   sign_vote  signSGD with majority vote (Bernstein et al. 2019): what comes out is the sign of the sum of all ranks'
//              signs: 1, -1, or 0 where as many ranks say either. It has no scale: the learning rate has to be that of
//              a sign method.
//   ef_sign    EF-signSGD (Karimireddy et al. 2019) by tensor: with p = g + e a rank sends sign(p) * |p|_1 / n_t, 4
//              bytes per tensor, and keeps e = p - what it sent. The paper has p = lr * g + e and updates by what was
//              sent; here the learning rate stands in the rule, behind the coder, so that momentum sees gradients: with
//              a constant rate both are the same.
//   one_bit    1-bit SGD (Seide et al. 2014) by tensor: with p = g + e the mean of the elements of p that are at least
//              0, and that of the others, 8 bytes per tensor; e = p - what it sent.

#include "mlbench/compress/coder.h"
#include "mlbench/compress/error_memory.h"

namespace mlbench::compress {

enum class SignScale { kNone, kMeanMagnitude, kMeanOfEachSign };

class SignCoder final : public GradientCoder {
 public:
  SignCoder(SignScale scale, const CoderContext& context);
  std::string name() const override;
  bool adds_payloads() const override { return scale_ != SignScale::kNone; }
  std::optional<uint64_t> bytes_per_step() const override { return static_cast<uint64_t>(payload_bytes_); }
  Payload encode(int round, const at::Tensor& gradient) override;
  void absorb(int round, std::span<const at::Tensor> results, at::Tensor& gradient) override;
  void export_state(NamedState& state) const override { memory_.export_state(state); }
  void import_state(const NamedState& state) override { memory_.import_state(state); }

 private:
  // A tensor's scales (floats), then its bits, begin at `payload` in the bytes.
  struct Part {
    int64_t offset = 0, count = 0, payload = 0;
  };
  // Elements of a part that are decoded together, from a whole byte on.
  struct Run {
    size_t part = 0;
    int64_t first = 0, count = 0;
  };

  SignScale scale_;
  std::vector<Part> parts_;
  std::vector<Run> runs_;
  int64_t payload_bytes_ = 0;
  ErrorMemory memory_;
};

}  // namespace mlbench::compress
