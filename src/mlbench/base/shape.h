#pragma once

// Shapes: the extents of a tensor, row-major.

#include <cstdint>
#include <span>

namespace mlbench {

// Number of elements: the product of the extents; 1 of no extents.
inline int64_t volume_of(std::span<const int64_t> shape) {
  int64_t volume = 1;
  for (const int64_t extent : shape) volume *= extent;
  return volume;
}

// The same of extents that nobody has checked, whose product may not fit into an integer.
inline double unchecked_volume_of(std::span<const int64_t> shape) {
  double volume = 1;
  for (const int64_t extent : shape) volume *= static_cast<double>(extent);
  return volume;
}

}  // namespace mlbench
