#pragma once

// Conversions between float32 and the type of activations or factors, one value at a time.

#include <bit>
#include <type_traits>

#include "mlbench/framework/native/tape/vector_kernels.h"

namespace mlbench::framework::native_framework {

inline float value_of(float value) { return value; }
inline float value_of(BFloat16 value) { return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16); }

template <typename T>
T rounded_to(float value) {
  if constexpr (std::is_same_v<T, float>) {
    return value;
  } else {
    const auto raw = std::bit_cast<uint32_t>(value);
    if (value != value) return {static_cast<uint16_t>((raw >> 16) | 0x40)};
    return {static_cast<uint16_t>((raw + 0x7fff + ((raw >> 16) & 1)) >> 16)};
  }
}

}  // namespace mlbench::framework::native_framework
