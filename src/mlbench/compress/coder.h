#pragma once

// Gradient coders, in rounds: encode(round) gives a payload and how the ranks combine it, absorb(round, result) takes
// the combination. After the last round the flat gradient is the aggregated one. Coders know nothing of transports.

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/base/flat_layout.h"
#include "mlbench/base/named_state.h"

namespace mlbench::compress {

enum class PayloadKind { kSum, kGather };

struct Payload {
  PayloadKind kind = PayloadKind::kSum;
  at::Tensor data;     // contiguous; for kSum the result is written back in place by the transport
  uint64_t bytes = 0;  // what counts as sent: data without padding
};

class GradientCoder {
 public:
  virtual ~GradientCoder() = default;
  virtual std::string name() const = 0;
  virtual int rounds() const = 0;
  // `gradient`: flat, this rank's share (already weighted so that the sum over ranks is the wanted mean).
  virtual Payload encode(int round, const at::Tensor& gradient) = 0;
  // `result`: kSum: the sum, same shape as the payload; kGather: [ranks, payload].
  // The last round leaves the aggregated gradient in `gradient`.
  virtual void absorb(int round, const at::Tensor& result, at::Tensor& gradient) = 0;
  virtual void export_state(NamedState& state) const = 0;
  virtual void import_state(const NamedState& state) = 0;
};

// UserError listing the valid names.
std::unique_ptr<GradientCoder> make_coder(const std::string& name, const FlatLayout& layout);
std::vector<std::string> coder_names();

}  // namespace mlbench::compress
