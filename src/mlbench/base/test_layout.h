#pragma once

// For tests: a layout of flat memory.

#include <cstdint>
#include <string>
#include <vector>

#include "mlbench/base/flat_layout.h"

namespace mlbench {

// A layout of one tensor for each of `counts`, its number of elements; each tensor lies at a multiple of 64 bytes.
inline FlatLayout layout_of(const std::vector<int64_t>& counts) {
  FlatLayout layout;
  for (const int64_t count : counts) {
    layout.ranges.push_back(
        {"t" + std::to_string(layout.ranges.size()), {count}, layout.parameter_elements, count, true});
    layout.parameter_elements += (count + 15) / 16 * 16;
  }
  return layout;
}

// Adds to layout_of() a buffer beside the parameters, which has no gradient.
inline FlatLayout layout_with_buffer(const std::vector<int64_t>& counts) {
  FlatLayout layout = layout_of(counts);
  layout.ranges.push_back({"mean", {7}, 0, 7, false});
  layout.buffer_elements = 16;
  return layout;
}

}  // namespace mlbench
