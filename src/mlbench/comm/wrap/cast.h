#pragma once

// Sends float32 as 16 bits: half the bytes, with eight (bfloat16) or eleven (float16) significant bits.
//
// In all_reduce, reduce_scatter, all_gather(_v) and broadcast, float32 is rounded to nearest even, the operation runs
// in the 16-bit type, and the result is written back as float32. All ranks end with the same bits, so the root of a
// broadcast and the owner of a gathered slice have their own values rounded, too. What float16 cannot hold (above
// 65504) becomes infinite. All other operations and types pass unchanged.

#include <memory>

#include "mlbench/comm/transport.h"

namespace mlbench::comm {

// Describes itself as "cast[bfloat16](gloo)". `wire` is kBFloat16 or kFloat16.
std::unique_ptr<Transport> make_cast(std::unique_ptr<Transport> inner, DType wire);

}  // namespace mlbench::comm
