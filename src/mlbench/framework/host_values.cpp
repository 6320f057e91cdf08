#include "mlbench/framework/host_values.h"

#include <utility>

namespace mlbench::framework {

HostValues::HostValues(Framework& framework, at::Tensor flat)
    : memory_(framework.separate_memory()), flat_(std::move(flat)), host_(flat_) {
  if (memory_ == nullptr) return;
  host_ = flat_.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
  count();
}

void HostValues::store() {
  if (memory_ == nullptr) return;
  flat_.copy_(host_);
  count();
}

void HostValues::count() { memory_->flat_bytes += flat_.nbytes(); }

}  // namespace mlbench::framework
