#pragma once

// Collectives that compute. Element by element, they combine the values of all ranks in the order of ranks, whatever
// the size and the algorithm: all ranks get the same bits, and the same inputs give the same bits again.
//
//   n bytes, n (k-1) <= 1 KiB     every rank combines everything itself: one step
//   larger                        each rank combines its share of each chunk, from its own buffer and the peers' slots,
//                                 and copies the other shares from where their ranks have combined them: two steps per
//                                 chunk, of which three are under way
//   larger, all buffers in one    each rank combines its share in all buffers, in place: two steps
//   region (regions.h)

#include "mlbench/base/buffer.h"
#include "mlbench/comm/shm/group.h"
#include "mlbench/comm/shm/regions.h"
#include "mlbench/comm/transport.h"

namespace mlbench::comm::shm_backend::reductions {

void all_reduce(Group& group, const Regions& regions, BufferView buffer, ReduceOp op);

// Only `root` gets the result; the contents of other ranks' buffers are lost.
void reduce(Group& group, const Regions& regions, BufferView buffer, ReduceOp op, int root);

void reduce_scatter(Group& group, ConstBufferView input, BufferView output, ReduceOp op);

}  // namespace mlbench::comm::shm_backend::reductions
