#include "mlbench/optim/rules/flat_state.h"

#include <algorithm>
#include <cstddef>

#include "mlbench/base/errors.h"

namespace mlbench::optim {

namespace {

// The values on the host: the tensor itself, or a copy.
at::Tensor on_host(const at::Tensor& flat, SeparateMemory* memory) {
  if (memory == nullptr) return flat;
  memory->flat_bytes += flat.nbytes();
  return flat.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace

void export_flat(const std::string& prefix, const FlatLayout& layout, const at::Tensor& flat, SeparateMemory* memory,
                 NamedState& state) {
  const at::Tensor host = on_host(flat, memory);
  for (const FlatRange& range : layout.ranges) {
    if (!range.trainable) continue;
    const auto* values = reinterpret_cast<const std::byte*>(host.const_data_ptr<float>() + range.offset);
    state.tensors[prefix + "/" + range.name] = {
        DType::kFloat32, range.shape, {values, values + static_cast<size_t>(range.count) * sizeof(float)}};
  }
}

void import_flat(const std::string& prefix, const FlatLayout& layout, const NamedState& state, SeparateMemory* memory,
                 at::Tensor& flat) {
  const at::Tensor host = on_host(flat, memory);
  for (const FlatRange& range : layout.ranges) {
    if (!range.trainable) continue;
    const std::string key = prefix + "/" + range.name;
    const HostTensor& tensor = state.tensor(key);
    if (tensor.dtype != DType::kFloat32 || tensor.shape != range.shape) {
      throw UserError("checkpoint: '" + key + "' has another type or shape than parameter '" + range.name +
                      "' of this task: it belongs to another model");
    }
    std::ranges::copy(tensor.bytes, reinterpret_cast<std::byte*>(host.data_ptr<float>() + range.offset));
  }
  if (memory == nullptr) return;
  flat.copy_(host);
  memory->flat_bytes += flat.nbytes();
}

}  // namespace mlbench::optim
