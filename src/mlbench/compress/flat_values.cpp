#include "mlbench/compress/flat_values.h"

#include <algorithm>
#include <cstddef>

#include "mlbench/base/errors.h"

namespace mlbench::compress {

void export_values(const std::string& key, const at::Tensor& flat, NamedState& state) {
  const auto* bytes = reinterpret_cast<const std::byte*>(flat.const_data_ptr<float>());
  state.tensors[key] = {
      DType::kFloat32, {flat.numel()}, {bytes, bytes + static_cast<size_t>(flat.numel()) * sizeof(float)}};
}

void import_values(const std::string& key, const NamedState& state, at::Tensor& flat) {
  const HostTensor& stored = state.tensor(key);
  if (stored.dtype != DType::kFloat32 || stored.shape != std::vector<int64_t>{flat.numel()}) {
    throw UserError("checkpoint: '" + key + "' has another size than the model and the options of this run give");
  }
  std::ranges::copy(stored.bytes, reinterpret_cast<std::byte*>(flat.data_ptr<float>()));
}

}  // namespace mlbench::compress
