#pragma once

// What a stateful part hands to a checkpoint: names to host buffers or scalars. Every stateful part has
// `void export_state(NamedState&) const` and `void import_state(const NamedState&)`.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "mlbench/base/buffer.h"

namespace mlbench {

struct HostTensor {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;    // logical, without padding
  std::vector<std::byte> bytes;  // dense, row-major, little endian
};

using Scalar = std::variant<int64_t, double, std::string>;

struct NamedState {
  std::map<std::string, HostTensor> tensors;
  std::map<std::string, Scalar> scalars;

  // UserError naming the missing entry (a checkpoint of another task or version) or the wrong type.
  const HostTensor& tensor(const std::string& name) const;
  int64_t integer(const std::string& name) const;
  double real(const std::string& name) const;
  const std::string& text(const std::string& name) const;
};

}  // namespace mlbench
