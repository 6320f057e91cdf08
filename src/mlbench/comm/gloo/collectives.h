#pragma once

// The collectives of one group, by textbook algorithms over a Mesh or by Gloo itself (library.h).

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "mlbench/base/buffer.h"
#include "mlbench/comm/transport.h"

namespace mlbench::comm::gloo_backend {

class Mesh;

// Precondition: every rank calls the same operation with the same sizes, buffers are not empty, there are at least two
// ranks, and one thread at a time uses an object. A failure throws CommError naming the peer. Below, k is the number of
// ranks and n the bytes of a buffer; "sent" is by each rank, by the textbook algorithms.
class Collectives {
 public:
  virtual ~Collectives() = default;

  // Dissemination: ceil(log2 k) rounds.
  virtual void barrier() = 0;

  // Binomial tree, chunk by chunk.
  virtual void broadcast(std::byte* data, size_t bytes, int root) = 0;

  // Reduces in place. All ranks get the same bits.
  virtual void all_reduce(BufferView buffer, ReduceOp op) = 0;

  // Block r of `data` is [offsets[r], offsets[r + 1]), and the caller's own block is in place. Ring: all blocks but one
  // sent.
  virtual void all_gather(std::byte* data, std::span<const size_t> offsets) = 0;

  // `blocks` holds k blocks of equal size. Combines block r at rank r, in place; the content of the other blocks is
  // lost. Ring: all blocks but one sent.
  virtual void reduce_scatter(BufferView blocks, ReduceOp op) = 0;

  // Reduces in place, with the result at `root`. Ring reduce-scatter, then each rank sends its block.
  virtual void reduce(BufferView buffer, ReduceOp op, int root) = 0;

  // Puts `bytes` of each rank, in rank order, into `output` of `root`. The root receives from one rank after the other,
  // so that its link sets the pace.
  virtual void gather(const std::byte* input, size_t bytes, std::byte* output, int root) = 0;
  // Sends `bytes` of the root's `input` to each rank, in rank order.
  virtual void scatter(const std::byte* input, std::byte* output, size_t bytes, int root) = 0;

  // Bytes [out[r], out[r + 1]) of `input` go to rank r, and [in[r], in[r + 1]) of `output` come from it. Pairwise: in
  // step s = 1 ... k - 1 a rank sends to the rank s after it and receives from the rank s before it.
  virtual void all_to_all(const std::byte* input, std::span<const size_t> out, std::byte* output,
                          std::span<const size_t> in) = 0;

  // Closes the connections: peers notice that this rank takes no part any more.
  virtual void close() noexcept = 0;
};

// Makes the textbook collectives, with the all_reduce named `all_reduce`. Each block is combined at one rank; in the
// doubling both partners combine the same two operands, ordered by rank.
// - "ring": 2 (k-1)/k n sent in 2 (k-1) rounds (Patarasuk and Yuan, 2009).
// - "halving_doubling": 2 (k-1)/k n sent in 2 log2 k rounds (Thakur, Rabenseifner and Gropp, 2005). Where k is no power
//   of two, the ranks above the largest power of two within k give their n bytes to a lower rank and get the result, in
//   two more rounds.
// - "bcube": the same in groups of four, each of which exchanges its blocks in one round while they are small: 2
//   (k-1)/k n sent in 2 log4 k rounds. What is left of k without its factors of four is one more group.
// - "auto": two ranks, or small buffers on 2^m ranks: recursive doubling (log2(k) n sent in log2 k rounds; with two
//   ranks that is as little as any algorithm sends, in one round instead of two); else the ring.
// Precondition: `all_reduce` is one of these names.
std::unique_ptr<Collectives> make_textbook_collectives(std::string_view all_reduce, std::unique_ptr<Mesh> mesh);

}  // namespace mlbench::comm::gloo_backend
