#pragma once

// float32 in 16 bits on the wire: half the bytes, eight (bfloat16) or eleven (float16) significant bits.
//
// all_reduce, reduce_scatter, all_gather(_v) and broadcast of float32 are rounded to nearest even, performed in the
// 16-bit type, and written back as float32. All ranks end with the same bits, so the root of a broadcast and the owner
// of a gathered slice have their own values rounded, too. What float16 cannot hold (above 65504) becomes infinite.
// Everything else passes as it is.

#include <memory>

#include "mlbench/comm/transport.h"

namespace mlbench::comm {

// "cast[bfloat16](gloo)". `wire`: kBFloat16 or kFloat16.
std::unique_ptr<Transport> make_cast(std::unique_ptr<Transport> inner, DType wire);

}  // namespace mlbench::comm
