#pragma once

// Collective algorithms over a Mesh. Every rank calls them with the same sizes; buffers are not empty and there are at
// least two ranks. k ranks, n bytes; "sent" is by each rank.

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "mlbench/comm/gloo/mesh.h"

namespace mlbench::comm::gloo_backend::collectives {

// Dissemination: ceil(log2 k) rounds.
void barrier(Mesh& mesh);

// Binomial tree, chunk by chunk.
void broadcast(Mesh& mesh, std::byte* data, size_t bytes, int root);

// In place. All ranks get the same bits: each block is combined at one rank, and in the doubling both partners combine
// the same two operands, ordered by rank.
using AllReduce = void (*)(Mesh& mesh, BufferView buffer, ReduceOp op);
// By name:
// - "ring": 2 (k-1)/k n sent in 2 (k-1) rounds (Patarasuk and Yuan, 2009).
// - "halving_doubling": 2 (k-1)/k n sent in 2 log2 k rounds (Thakur, Rabenseifner and Gropp, 2005); where k is no power
//   of two, the ranks above the largest one within k give their n to a lower rank and get the result: n and two rounds
//   more.
// - "bcube": the same in groups of four, each of which exchanges its blocks in one round while they are small: 2
//   (k-1)/k n sent in 2 log4 k rounds. What is left of k without its factors of four is one more group.
// - "auto": two ranks, or small buffers on 2^m ranks: recursive doubling (log2(k) n sent in log2 k rounds; with two
//   ranks that is as little as any algorithm sends, in one round instead of two); else the ring. A name that is none of
//   these is a bug of the caller.
AllReduce all_reduce_named(std::string_view algorithm);

// Block r of `data` is [offsets[r], offsets[r + 1]); the caller's own is in place. Ring: all blocks but one sent.
void all_gather(Mesh& mesh, std::byte* data, std::span<const size_t> offsets);

// Combines block r of all ranks at rank r, in place; the other blocks' content is lost. Ring: all blocks but one sent.
void reduce_scatter(Mesh& mesh, std::byte* data, std::span<const size_t> offsets, Combine combine);

// In place; result at root. Ring reduce-scatter, then each rank sends its block.
void reduce(Mesh& mesh, BufferView buffer, ReduceOp op, int root);

// n bytes of each rank, in rank order, into `output` of the root, which takes them one rank after the other: it is its
// link that counts.
void gather(Mesh& mesh, const std::byte* input, size_t bytes, std::byte* output, int root);
// The way back: n bytes of the root's `input` for each rank.
void scatter(Mesh& mesh, const std::byte* input, std::byte* output, size_t bytes, int root);

// Bytes [out[r], out[r + 1]) of `input` go to rank r, [in[r], in[r + 1]) of `output` come from it. Pairwise: in step
// s = 1 ... k - 1 a rank sends to the one s after it and receives from the one s before it.
void all_to_all(Mesh& mesh, const std::byte* input, std::span<const size_t> out, std::byte* output,
                std::span<const size_t> in);

}  // namespace mlbench::comm::gloo_backend::collectives
