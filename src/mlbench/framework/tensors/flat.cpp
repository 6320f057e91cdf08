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

double penalty_of(const models::ModelDescription& model, const at::Tensor& parameters) {
  const double l1 = model.l1 > 0 ? model.l1 * parameters.abs().sum().item<double>() : 0;
  return l1 + (model.l2 > 0 ? model.l2 / 2 * parameters.dot(parameters).item<double>() : 0);
}

bool begin_gradients(const models::ModelDescription& model, const at::Tensor& parameters, at::Tensor& gradients,
                     const BackwardOptions& options) {
  bool accumulate = options.accumulate;
  const auto begin_with = [&](const at::Tensor& direction, double weight) {
    if (accumulate) {
      gradients.add_(direction, weight);
    } else {
      at::mul_out(gradients, direction, at::scalar_tensor(weight, at::kFloat));
    }
    accumulate = true;
  };
  if (model.l2 > 0) begin_with(parameters, options.scale * model.l2);
  if (model.l1 > 0) begin_with(parameters.sign(), options.scale * model.l1);
  return accumulate;
}

}  // namespace mlbench::framework
