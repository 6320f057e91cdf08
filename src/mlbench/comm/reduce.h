#pragma once

// The arithmetic of reductions, for all back ends that do it themselves, and of what travels in 16 bits.

#include <cstddef>
#include <cstdint>

#include "mlbench/comm/communicator.h"

namespace mlbench::comm {

// accumulator[i] = op(accumulator[i], other[i]); with `other_first` op(other[i], accumulator[i]), which differs in the
// bits of min and max where the operands compare equal (+0, -0) or do not compare (NaN). The ranges do not overlap.
// There is none for kAvg: it is a sum, and divide_function at the end.
using AccumulateFunction = void (*)(void* accumulator, const void* other, size_t count, bool other_first);

// The fastest for this CPU. 16-bit types are read as float32, combined, rounded to nearest even.
AccumulateFunction accumulate_function(DType dtype, ReduceOp op);

// The plain loop: the reference, bitwise the same except for the payload of a NaN.
AccumulateFunction portable_accumulate_function(DType dtype, ReduceOp op);

// values[i] = values[i] / divisor, which is positive: integers towards zero; 16-bit types as float32, rounded to
// nearest even.
using DivideFunction = void (*)(void* values, size_t count, int divisor);
DivideFunction divide_function(DType dtype);
DivideFunction portable_divide_function(DType dtype);

// float32 as a 16-bit type, rounded to nearest even, and back. Null for other dtypes.
using NarrowFunction = void (*)(uint16_t* narrow, const float* wide, size_t count);
using WidenFunction = void (*)(float* wide, const uint16_t* narrow, size_t count);
NarrowFunction narrow_function(DType dtype);
WidenFunction widen_function(DType dtype);
NarrowFunction portable_narrow_function(DType dtype);
WidenFunction portable_widen_function(DType dtype);

}  // namespace mlbench::comm
