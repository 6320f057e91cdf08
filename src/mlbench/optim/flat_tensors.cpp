#include "mlbench/optim/flat_tensors.h"

namespace mlbench::optim {

at::TensorOptions options_beside(const SeparateMemory* memory) {
  const at::TensorOptions options(at::kFloat);
  if (memory == nullptr || memory->stream.device.kind == Device::Kind::kCpu) return options;
  return options.device(at::kCUDA, static_cast<at::DeviceIndex>(memory->stream.device.index));
}

}  // namespace mlbench::optim
