#include "mlbench/framework/tensors/flat.h"

#include <cstddef>
#include <memory>

#include "mlbench/base/errors.h"

namespace mlbench::framework {

BufferView flat_view(const at::Tensor& flat, const SeparateMemory* memory) {
  return {flat.data_ptr<float>(), flat.numel(), DType::kFloat32, memory == nullptr ? Stream() : memory->stream};
}

at::Tensor flat_tensor(const BufferView& flat) {
  const Device& device = flat.stream.device;
  at::TensorOptions options(at::kFloat);
  if (device.kind == Device::Kind::kCuda) {
    options = options.device(at::kCUDA, static_cast<at::DeviceIndex>(device.index));
  }
  return at::from_blob(flat.data, {flat.count}, options);
}

std::span<float> values_of(const at::Tensor& flat) {
  MLBENCH_CHECK(flat.is_cpu(), "values of a tensor that is not in the host's memory");
  return {flat.data_ptr<float>(), static_cast<size_t>(flat.numel())};
}

at::Tensor make_gradients(const FrameworkOptions& options, int64_t elements) {
  if (!options.gradient_memory) return at::zeros({elements}, at::kFloat);
  const std::shared_ptr<std::byte> memory = options.gradient_memory(static_cast<size_t>(elements) * sizeof(float));
  return at::from_blob(
      memory.get(), {elements}, [memory](void*) {}, at::kFloat);
}

double l2_penalty(const models::ModelDescription& model, const at::Tensor& parameters) {
  return model.l2 > 0 ? model.l2 / 2 * parameters.dot(parameters).item<double>() : 0;
}

bool begin_gradients(const models::ModelDescription& model, const at::Tensor& parameters, at::Tensor& gradients,
                     const BackwardOptions& options) {
  if (model.l2 <= 0) return options.accumulate;
  const double scale = options.scale * model.l2;
  if (options.accumulate) {
    gradients.add_(parameters, scale);
  } else {
    at::mul_out(gradients, parameters, at::scalar_tensor(scale, at::kFloat));
  }
  return true;
}

}  // namespace mlbench::framework
