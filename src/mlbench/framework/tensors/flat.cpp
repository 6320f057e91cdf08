#include "mlbench/framework/tensors/flat.h"

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

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

namespace {

// The stretches of the flat parameters that the model's penalties are of; none where it has no penalty. Each goes on to
// the next parameter: padding is zeros, which no penalty counts.
std::vector<std::pair<int64_t, int64_t>> penalised(const models::ModelDescription& model) {
  std::vector<std::pair<int64_t, int64_t>> stretches;
  if (model.l1 == 0 && model.l2 == 0) return stretches;
  const FlatLayout layout = models::lay_out(model);
  bool open = false;
  for (const FlatRange& range : layout.ranges) {
    if (!range.trainable) break;
    const bool counts = range.use != TensorUse::kNorm;
    if (counts && !open) stretches.emplace_back(range.offset, layout.parameter_elements);
    if (!counts && open) stretches.back().second = range.offset;
    open = counts;
  }
  return stretches;
}

}  // namespace

double penalty_of(const models::ModelDescription& model, const at::Tensor& parameters) {
  double penalty = 0;
  for (const auto& [begin, end] : penalised(model)) {
    const at::Tensor part = parameters.slice(0, begin, end);
    if (model.l1 > 0) penalty += model.l1 * part.abs().sum().item<double>();
    if (model.l2 > 0) penalty += model.l2 / 2 * part.dot(part).item<double>();
  }
  return penalty;
}

bool begin_gradients(const models::ModelDescription& model, const at::Tensor& parameters, at::Tensor& gradients,
                     const BackwardOptions& options) {
  const auto stretches = penalised(model);
  if (stretches.empty()) return options.accumulate;
  if (!options.accumulate) gradients.zero_();
  for (const auto& [begin, end] : stretches) {
    const at::Tensor part = parameters.slice(0, begin, end);
    at::Tensor gradient = gradients.slice(0, begin, end);
    if (model.l2 > 0) gradient.add_(part, options.scale * model.l2);
    if (model.l1 > 0) gradient.add_(part.sign(), options.scale * model.l1);
  }
  return true;
}

}  // namespace mlbench::framework
