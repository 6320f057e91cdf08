#include "mlbench/optim/flat_tensors.h"

namespace mlbench::optim {

namespace {

at::TensorOptions options_on(const Device& device) {
  const at::TensorOptions options(at::kFloat);
  return device.kind == Device::Kind::kCpu ? options
                                           : options.device(at::kCUDA, static_cast<at::DeviceIndex>(device.index));
}

at::Tensor tensor_over(const BufferView& flat) {
  return at::from_blob(flat.data, {flat.count}, options_on(flat.stream.device));
}

}  // namespace

FlatTensors flat_tensors(const BufferView& parameters, const BufferView& gradients) {
  return {tensor_over(parameters), tensor_over(gradients)};
}

at::TensorOptions options_beside(const SeparateMemory* memory) {
  return options_on(memory == nullptr ? Device() : memory->stream.device);
}

}  // namespace mlbench::optim
