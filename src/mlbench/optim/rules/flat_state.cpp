#include "mlbench/optim/rules/flat_state.h"

#include <cstring>

#include "mlbench/base/errors.h"

namespace mlbench::optim {

void export_flat(const std::string& prefix, const FlatLayout& layout, const at::Tensor& flat, NamedState& state) {
  for (const FlatRange& range : layout.ranges) {
    if (!range.trainable) continue;
    const auto* values = reinterpret_cast<const std::byte*>(flat.const_data_ptr<float>() + range.offset);
    state.tensors[prefix + "/" + range.name] = {
        DType::kFloat32, range.shape, {values, values + static_cast<size_t>(range.count) * sizeof(float)}};
  }
}

void import_flat(const std::string& prefix, const FlatLayout& layout, const NamedState& state, at::Tensor& flat) {
  for (const FlatRange& range : layout.ranges) {
    if (!range.trainable) continue;
    const std::string key = prefix + "/" + range.name;
    const HostTensor& tensor = state.tensor(key);
    if (tensor.dtype != DType::kFloat32 || tensor.shape != range.shape) {
      throw UserError("checkpoint: '" + key + "' has another type or shape than parameter '" + range.name +
                      "' of this task: it belongs to another model");
    }
    std::memcpy(flat.data_ptr<float>() + range.offset, tensor.bytes.data(), tensor.bytes.size());
  }
}

}  // namespace mlbench::optim
