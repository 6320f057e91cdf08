#include "mlbench/framework/tensors/flat.h"

#include <algorithm>
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

namespace {

// The elements [begin, end) of a flat tensor. A slice costs as much as the arithmetic of a small model's penalties, so
// that the whole tensor stands for all of its elements.
at::Tensor part_of(const at::Tensor& flat, int64_t begin, int64_t end) {
  return begin == 0 && end == flat.numel() ? flat : flat.slice(0, begin, end);
}

}  // namespace

Penalties::Penalties(const models::ModelDescription& model) : l1_(model.l1), l2_(model.l2) {
  if (l1_ == 0 && l2_ == 0) return;
  const FlatLayout layout = models::lay_out(model);
  bool open = false;
  for (const FlatRange& range : layout.ranges) {
    if (!range.trainable) break;
    const bool counts = range.use != TensorUse::kNorm;
    if (counts && !open) stretches_.emplace_back(range.offset, layout.parameter_elements);
    if (!counts && open) stretches_.back().second = range.offset;
    leaves_out_ = leaves_out_ || !counts;
    open = counts;
  }
}

double Penalties::of(const at::Tensor& parameters) const {
  double penalty = 0;
  for (const auto& [begin, end] : stretches_) {
    const at::Tensor part = part_of(parameters, begin, end);
    if (l1_ > 0) penalty += l1_ * part.abs().sum().item<double>();
    if (l2_ > 0) penalty += l2_ / 2 * part.dot(part).item<double>();
  }
  return penalty;
}

bool Penalties::begin_gradients(const at::Tensor& parameters, at::Tensor& gradients,
                                const BackwardOptions& options) const {
  if (leaves_out_ && !options.accumulate) gradients.zero_();
  for (const auto& [begin, end] : stretches_) {
    const at::Tensor part = part_of(parameters, begin, end);
    at::Tensor gradient = part_of(gradients, begin, end);
    bool adds = options.accumulate;
    const auto begin_with = [&](const at::Tensor& direction, double weight) {
      if (adds) {
        gradient.add_(direction, weight);
      } else if (gradient.is_cpu()) {
        const auto factor = static_cast<float>(weight);
        std::ranges::transform(values_of(direction), values_of(gradient).begin(),
                               [factor](float value) { return value * factor; });
      } else {
        at::mul_out(gradient, direction, at::scalar_tensor(weight, at::kFloat));
      }
      adds = true;
    };
    if (l2_ > 0) begin_with(part, options.scale * l2_);
    if (l1_ > 0) begin_with(part.sign(), options.scale * l1_);
  }
  return options.accumulate || !stretches_.empty();
}

}  // namespace mlbench::framework
