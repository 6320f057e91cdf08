#pragma once

// The reference for collectives: plain algorithms, mostly around a ring, made of tagged messages alone. A library is
// faster where it knows better. What each of these costs is known in advance, which is why netem (comm/wrap) uses them.
//
// There are k ranks; a buffer has n bytes; a message of m bytes takes a + m/B; and messages on different links do not
// wait for each other:
//
//   all_reduce        ring: reduce_scatter, then all_gather of the blocks   2 (k-1) a + 2 (k-1)/k n/B
//   reduce_scatter    ring                                                  (k-1) a + (k-1)/k n/B, n: of the input
//   all_gather(_v)    ring                                                  (k-1) a + (k-1)/k n/B, n: of the output
//   reduce            ring reduce_scatter, then each block goes to the root (k-1) a + (k-1)/k n/B, then a + n/k/B
//   broadcast         binomial tree                                         ceil(log2 k) (a + n/B)
//   barrier           dissemination, one byte a message                     ceil(log2 k) a
//   gather, scatter, all_to_all(_v)   each slice in one message between the two ranks (Transport's own)
//
// Blocks are whole elements, as equal as they can be; an empty block is not sent. A block is combined in the order of
// ranks around the ring that begins after the block's owner: the same bits on every rank and each time, but another
// order than that of other back ends.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "mlbench/comm/transport.h"

namespace mlbench::comm {

// Collectives over send and recv, which a derived class implements.
class RingCollectives : public Transport {
 public:
  void barrier() override;
  void broadcast(BufferView buffer, int root) override;
  void all_reduce(BufferView buffer, ReduceOp op) override;
  void all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts) override;
  void reduce_scatter(ConstBufferView input, BufferView output, ReduceOp op) override;
  void reduce(BufferView buffer, ReduceOp op, int root) override;

 private:
  // The rank at this distance along the ring.
  int along(int distance) const;
  // Sends to one rank while receiving from another.
  void exchange(int to, ConstBufferView out, int from, BufferView in);
  // Block b of the buffer is elements [firsts[b], firsts[b + 1]). Afterwards every rank's own block is combined.
  void combine_around(BufferView buffer, std::span<const int64_t> firsts, ReduceOp op);
  // Precondition: every rank's own block is in place. Afterwards all blocks are.
  void pass_around(BufferView buffer, std::span<const int64_t> firsts);

  std::vector<std::byte> received_;
};

// Collectives over the send and recv of another transport: "ring(gloo)".
std::unique_ptr<Transport> make_ring(std::unique_ptr<Transport> inner);

}  // namespace mlbench::comm
