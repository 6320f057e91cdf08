#pragma once

// A shape is the extents of a tensor, row-major.

#include <cstdint>
#include <span>

namespace mlbench {

// The number of elements: the product of the extents, which is 1 when there are none.
inline int64_t volume_of(std::span<const int64_t> shape) {
  int64_t volume = 1;
  for (const int64_t extent : shape) volume *= extent;
  return volume;
}

// Returns the volume of extents that nobody has checked: their product may not fit into an integer.
inline double unchecked_volume_of(std::span<const int64_t> shape) {
  double volume = 1;
  for (const int64_t extent : shape) volume *= static_cast<double>(extent);
  return volume;
}

}  // namespace mlbench
