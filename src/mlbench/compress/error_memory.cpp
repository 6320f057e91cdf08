#include "mlbench/compress/error_memory.h"

#include <cstring>
#include <utility>

#include "mlbench/base/errors.h"

namespace mlbench::compress {

namespace {

constexpr const char* kError = "coder/error";
constexpr const char* kName = "coder/name";

}  // namespace

ErrorMemory::ErrorMemory(std::string coder, const FlatLayout& layout, bool enabled)
    : coder_(std::move(coder)), values_(enabled ? at::zeros({layout.parameter_elements}) : at::Tensor()) {}

void ErrorMemory::add_to(at::Tensor& gradient) const {
  if (enabled()) gradient.add_(values_);
}

void ErrorMemory::keep(const at::Tensor& gradient, const at::Tensor& sent) {
  if (enabled()) at::sub_out(values_, gradient, sent);
}

void ErrorMemory::export_state(NamedState& state) const {
  if (!enabled()) return;
  const auto* bytes = reinterpret_cast<const std::byte*>(values_.const_data_ptr<float>());
  state.tensors[kError] = {
      DType::kFloat32, {values_.numel()}, {bytes, bytes + static_cast<size_t>(values_.numel()) * sizeof(float)}};
  state.scalars[kName] = coder_;
}

void ErrorMemory::import_state(const NamedState& state) {
  if (!enabled()) return;
  const std::string coder = state.text(kName);
  if (coder != coder_) {
    throw UserError("checkpoint: the error memory is of the coder '" + coder + "'; expected that of '" + coder_ + "'");
  }
  const HostTensor& stored = state.tensor(kError);
  if (stored.dtype != DType::kFloat32 || stored.shape != std::vector<int64_t>{values_.numel()}) {
    throw UserError("checkpoint: the error memory has another size than the model of this task");
  }
  std::memcpy(values_.data_ptr<float>(), stored.bytes.data(), stored.bytes.size());
}

}  // namespace mlbench::compress
