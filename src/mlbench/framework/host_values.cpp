#include "mlbench/framework/host_values.h"

namespace mlbench::framework {

HostValues::HostValues(Framework& framework, const BufferView& flat)
    : memory_(framework.separate_memory()), flat_(flat) {
  if (memory_ == nullptr) return;
  copy_ = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(flat_.count));
  memory_->to_host(flat_, copy_.get());
  memory_->flat_bytes += flat_.size_bytes();
}

std::span<float> HostValues::values() const {
  return copy_ == nullptr ? values_of(flat_) : std::span(copy_.get(), static_cast<size_t>(flat_.count));
}

void HostValues::store() {
  if (memory_ == nullptr) return;
  memory_->from_host(copy_.get(), flat_);
  memory_->flat_bytes += flat_.size_bytes();
}

}  // namespace mlbench::framework
