#pragma once

// Access to single elements of values, for operations that have no SIMD kernel.

#include <cstdint>

#include "mlbench/framework/native/tape/bfloat16.h"
#include "mlbench/framework/native/tape/tape.h"

namespace mlbench::framework::native_framework {

// The index of element (channel, pixel) of a sample in the blocked layout.
struct Blocked {
  int64_t pixels;
  int lanes;
  int64_t operator()(int64_t channel, int64_t pixel) const {
    return (channel / lanes * pixels + pixel) * lanes + channel % lanes;
  }
};

// The elements per sample of a value, padding of the last block included.
inline int64_t elements_of(const Value& value, int lanes) {
  return value.layout == Layout::kBlocked ? value.blocks * value.shape.pixels() * lanes : value.shape.volume();
}

// Writes one element of an input's gradient, or with `add` adds to it.
template <typename T>
void put(T* target, float value, bool add) {
  *target = rounded_to<T>(add ? value_of(*target) + value : value);
}

}  // namespace mlbench::framework::native_framework
