#pragma once

// Names the ranks that do not call the same collective, which otherwise wait for each other or mix up their data.
//
// Before each collective the ranks exchange what they are about to do: the collective's number, operation, dtype, count
// or counts, root and op, and whether the input contains a NaN (in operations to which every rank brings an input).
// When these do not fit together, every rank throws a CommError that names the ranks and what each was doing:
//
//   collective 7 differs: ranks 0, 2: all_reduce of 100 float32, sum; rank 1: broadcast of 100 float32 from root 0
//
// The check costs an all-gather of 56 + 16 k bytes per rank, with k ranks, before each collective; an asynchronous
// all_reduce waits for it. Messages (send, recv) are not checked. An operation on no elements is not seen; the next
// operation is.

#include <memory>

#include "mlbench/comm/transport.h"

namespace mlbench::comm {

// Describes itself as "check(gloo)".
std::unique_ptr<Transport> make_check(std::unique_ptr<Transport> inner);

}  // namespace mlbench::comm
