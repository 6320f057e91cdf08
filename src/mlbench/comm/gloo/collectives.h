#pragma once

// The collectives of one group: by textbook algorithms over a Mesh, or (library.h) by Gloo itself.

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "mlbench/base/buffer.h"
#include "mlbench/comm/transport.h"

namespace mlbench::comm::gloo_backend {

class Mesh;

// Every rank calls them with the same sizes; buffers are not empty and there are at least two ranks. A failure is a
// CommError naming the peer. One thread at a time. k ranks, n bytes; "sent" is by each rank, by textbook algorithms.
class Collectives {
 public:
  virtual ~Collectives() = default;

  // Dissemination: ceil(log2 k) rounds.
  virtual void barrier() = 0;

  // Binomial tree, chunk by chunk.
  virtual void broadcast(std::byte* data, size_t bytes, int root) = 0;

  // In place. All ranks get the same bits.
  virtual void all_reduce(BufferView buffer, ReduceOp op) = 0;

  // Block r of `data` is [offsets[r], offsets[r + 1]); the caller's own is in place. Ring: all blocks but one sent.
  virtual void all_gather(std::byte* data, std::span<const size_t> offsets) = 0;

  // Combines block r of k equal ones at rank r, in place; the other blocks' content is lost. Ring: all blocks but one
  // sent.
  virtual void reduce_scatter(BufferView blocks, ReduceOp op) = 0;

  // In place; result at root. Ring reduce-scatter, then each rank sends its block.
  virtual void reduce(BufferView buffer, ReduceOp op, int root) = 0;

  // n bytes of each rank, in rank order, into `output` of the root, which takes them one rank after the other: it is
  // its link that counts.
  virtual void gather(const std::byte* input, size_t bytes, std::byte* output, int root) = 0;
  // The way back: n bytes of the root's `input` for each rank.
  virtual void scatter(const std::byte* input, std::byte* output, size_t bytes, int root) = 0;

  // Bytes [out[r], out[r + 1]) of `input` go to rank r, [in[r], in[r + 1]) of `output` come from it. Pairwise: in step
  // s = 1 ... k - 1 a rank sends to the one s after it and receives from the one s before it.
  virtual void all_to_all(const std::byte* input, std::span<const size_t> out, std::byte* output,
                          std::span<const size_t> in) = 0;

  // Peers notice that this rank takes no part any more.
  virtual void close() noexcept = 0;
};

// With an all_reduce by name. Each block is combined at one rank, and in the doubling both partners combine the same
// two operands, ordered by rank.
// - "ring": 2 (k-1)/k n sent in 2 (k-1) rounds (Patarasuk and Yuan, 2009).
// - "halving_doubling": 2 (k-1)/k n sent in 2 log2 k rounds (Thakur, Rabenseifner and Gropp, 2005); where k is no power
//   of two, the ranks above the largest one within k give their n to a lower rank and get the result: n and two rounds
//   more.
// - "bcube": the same in groups of four, each of which exchanges its blocks in one round while they are small: 2
//   (k-1)/k n sent in 2 log4 k rounds. What is left of k without its factors of four is one more group.
// - "auto": two ranks, or small buffers on 2^m ranks: recursive doubling (log2(k) n sent in log2 k rounds; with two
//   ranks that is as little as any algorithm sends, in one round instead of two); else the ring. A name that is none of
//   these is a bug of the caller.
std::unique_ptr<Collectives> make_textbook_collectives(std::string_view all_reduce, std::unique_ptr<Mesh> mesh);

}  // namespace mlbench::comm::gloo_backend
