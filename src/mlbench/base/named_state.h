#pragma once

// What a stateful part gives to a checkpoint: names of host buffers or scalars. Every stateful part has these
// functions:
//   void export_state(NamedState&) const;
//   void import_state(const NamedState&);

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

  // These functions throw UserError naming an entry that is missing (a checkpoint of another task or version) or has
  // the wrong type.
  const HostTensor& tensor(const std::string& name) const;
  int64_t integer(const std::string& name) const;
  double real(const std::string& name) const;
  const std::string& text(const std::string& name) const;
};

}  // namespace mlbench
