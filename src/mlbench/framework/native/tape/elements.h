#pragma once

// Single elements of values, for operations that are no kernels.

#include <cstdint>

#include "mlbench/framework/native/tape/bfloat16.h"
#include "mlbench/framework/native/tape/tape.h"

namespace mlbench::framework::native_framework {

// Where element (channel, pixel) of a sample lies.
struct Blocked {
  int64_t pixels;
  int lanes;
  int64_t operator()(int64_t channel, int64_t pixel) const {
    return (channel / lanes * pixels + pixel) * lanes + channel % lanes;
  }
};

inline int64_t elements_of(const Value& value, int lanes) {
  return value.layout == Layout::kBlocked ? value.blocks * value.shape.pixels() * lanes : value.shape.volume();
}

// Gradient of one input: written, or added to what is there.
template <typename T>
void put(T* target, float value, bool add) {
  *target = rounded_to<T>(add ? value_of(*target) + value : value);
}

}  // namespace mlbench::framework::native_framework
