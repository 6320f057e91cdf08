#include "mlbench/compress/half.h"

namespace mlbench::compress {

HalfCoder::HalfCoder(const HalfOptions& options, const CoderContext& context)
    : options_(options),
      bytes_(static_cast<uint64_t>(context.layout.parameter_count()) * 2),
      memory_(name(), context.layout, options.error_feedback) {}

Payload HalfCoder::encode(int /*round*/, const at::Tensor& gradient) {
  Payload payload;
  payload.kind = PayloadKind::kSum;
  payload.bytes = bytes_;
  payload.data = memory_.with(gradient).to(options_.type);
  if (memory_.enabled()) memory_.values().sub_(payload.data);
  return payload;
}

void HalfCoder::absorb(int /*round*/, std::span<const at::Tensor> results, at::Tensor& gradient) {
  gradient.copy_(results[0]);
}

}  // namespace mlbench::compress
