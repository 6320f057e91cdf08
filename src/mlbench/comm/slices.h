#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "mlbench/base/buffer.h"

namespace mlbench::comm {

// The offsets in bytes of slices with so many elements each, followed by the end of the last slice.
inline std::vector<size_t> offsets_of(std::span<const int64_t> counts, DType dtype) {
  std::vector<size_t> offsets{0};
  for (const int64_t count : counts) offsets.push_back(offsets.back() + static_cast<size_t>(count) * size_of(dtype));
  return offsets;
}

}  // namespace mlbench::comm
