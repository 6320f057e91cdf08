#pragma once

// One element of a reduction, for the loops of reduce.cpp and for those of the CPU at hand. Only comm/ includes this.

#include <cstdint>
#include <type_traits>

#include "mlbench/comm/half.h"
#include "mlbench/comm/reduce.h"

namespace mlbench::comm {

// How an element is stored in memory, and as which type it is combined.
template <typename T>
struct Plain {
  using Stored = T;
  static T load(T stored) { return stored; }
  static T store(T value) { return value; }
};
struct Float16 {
  using Stored = uint16_t;
  static float load(uint16_t stored) { return float16_to_float(stored); }
  static uint16_t store(float value) { return float_to_float16(value); }
};
struct BFloat16 {
  using Stored = uint16_t;
  static float load(uint16_t stored) { return bfloat16_to_float(stored); }
  static uint16_t store(float value) { return float_to_bfloat16(value); }
};

// An element in memory, at any address: a buffer may begin anywhere.
template <typename Format>
struct [[gnu::packed]] Element {
  typename Format::Stored value;
};

template <ReduceOp op, typename T>
inline T combine(T a, T b) {
  if constexpr (op == ReduceOp::kMin) {
    return b < a ? b : a;
  } else if constexpr (op == ReduceOp::kMax) {
    return a < b ? b : a;
  } else if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;  // signed overflow is undefined
    const auto x = static_cast<Unsigned>(a);
    const auto y = static_cast<Unsigned>(b);
    return static_cast<T>(static_cast<Unsigned>(op == ReduceOp::kProd ? x * y : x + y));
  } else {
    return op == ReduceOp::kProd ? a * b : a + b;
  }
}

template <typename Format, ReduceOp op>
inline void accumulate_one(Element<Format>& accumulator, Element<Format> other, bool other_first) {
  const auto a = Format::load(accumulator.value);
  const auto b = Format::load(other.value);
  accumulator.value = Format::store(other_first ? combine<op>(b, a) : combine<op>(a, b));
}

template <typename Format>
inline void divide_one(Element<Format>& element, int divisor) {
  const auto dividend = Format::load(element.value);
  using T = std::remove_const_t<decltype(dividend)>;
  if constexpr (std::is_integral_v<T>) {
    element.value = Format::store(static_cast<T>(dividend / divisor));
  } else {
    element.value = Format::store(dividend / static_cast<T>(divisor));
  }
}

// The loops for this CPU's instructions; null where there are none (CMake takes reduce_x86.cpp or reduce_other.cpp).
AccumulateFunction cpu_accumulate_function(DType dtype, ReduceOp op);
DivideFunction cpu_divide_function(DType dtype);
NarrowFunction cpu_narrow_function(DType dtype);
WidenFunction cpu_widen_function(DType dtype);

}  // namespace mlbench::comm
