#include "mlbench/optim/exchange/coded_sum.h"

#include "mlbench/optim/exchange/combine.h"

namespace mlbench::optim {

namespace {

bool needs_staging(const ExchangeContext& context) {
  if (context.memory == nullptr) return false;
  if (!context.coder.sends_gradient()) return true;
  const Device& device = context.memory->stream.device;
  return context.comm.size() > 1 && (device.kind == Device::Kind::kCpu || !context.comm.supports(device));
}

}  // namespace

CodedSum::CodedSum(const ExchangeContext& context) : comm_(context.comm), coder_(context.coder) {
  if (needs_staging(context)) {
    staging_ = std::make_unique<Staging>(*context.memory, context.layout.parameter_elements);
  } else if (context.memory != nullptr) {
    stream_ = context.memory->stream;
  }
}

uint64_t CodedSum::sum(at::Tensor& values) {
  at::Tensor& sent = staging_ ? staging_->host() : values;
  if (staging_) staging_->fetch(values, 0, values.numel());
  uint64_t bytes = 0;
  for (int round = 0; round < coder_.rounds(); ++round) {
    const compress::Payload payload = coder_.encode(round, sent);
    coder_.absorb(round, combine(comm_, payload, stream_), sent);
    bytes += payload.bytes;
  }
  if (staging_) staging_->put_back(values, 0, values.numel());
  return comm_.size() == 1 ? 0 : bytes;
}

}  // namespace mlbench::optim
