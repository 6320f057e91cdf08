#pragma once

// The arithmetic of reductions, for all back ends that compute them themselves, and of conversion to 16 bits.

#include <cstddef>
#include <cstdint>

#include "mlbench/comm/communicator.h"

namespace mlbench::comm {

// accumulator[i] = op(accumulator[i], other[i]); with `other_first` op(other[i], accumulator[i]), which differs in the
// bits of min and max where the operands compare equal (+0, -0) or do not compare (NaN). The ranges must not overlap.
// There is no such function for kAvg, which is a sum followed by divide_function().
using AccumulateFunction = void (*)(void* accumulator, const void* other, size_t count, bool other_first);

// The fastest function for this CPU. 16-bit types are read as float32, combined, and rounded to nearest even.
AccumulateFunction accumulate_function(DType dtype, ReduceOp op);

// The plain loop, which is the reference: bitwise the same, except for the payload of a NaN.
AccumulateFunction portable_accumulate_function(DType dtype, ReduceOp op);

// values[i] = values[i] / divisor, where `divisor` must be positive. Integers are rounded towards zero; 16-bit types
// are divided as float32 and rounded to nearest even.
using DivideFunction = void (*)(void* values, size_t count, int divisor);
DivideFunction divide_function(DType dtype);
DivideFunction portable_divide_function(DType dtype);

// Converts float32 to a 16-bit type, rounded to nearest even, and back. The function for any other dtype is null.
using NarrowFunction = void (*)(uint16_t* narrow, const float* wide, size_t count);
using WidenFunction = void (*)(float* wide, const uint16_t* narrow, size_t count);
NarrowFunction narrow_function(DType dtype);
WidenFunction widen_function(DType dtype);
NarrowFunction portable_narrow_function(DType dtype);
WidenFunction portable_widen_function(DType dtype);

}  // namespace mlbench::comm
