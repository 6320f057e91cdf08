#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace mlbench::compress {

// The largest magnitude of `count` values; NaN where there is one.
inline float largest_magnitude(const float* values, int64_t count) {
  // As their bits, magnitudes compare as numbers do, with NaN above all.
  int32_t most = 0;
  for (int64_t i = 0; i < count; ++i) most = std::max(most, std::bit_cast<int32_t>(std::abs(values[i])));
  return std::bit_cast<float>(most);
}

}  // namespace mlbench::compress
