#pragma once

// Collective algorithms over a Mesh. Every rank calls them with the same sizes. Precondition: buffers are not empty,
// and there are at least two ranks. There are k ranks and n bytes; "sent" counts what each rank sends.

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "mlbench/comm/gloo/mesh.h"

namespace mlbench::comm::gloo_backend::collectives {

// By dissemination: ceil(log2 k) rounds.
void barrier(Mesh& mesh);

// By a binomial tree, chunk by chunk.
void broadcast(Mesh& mesh, std::byte* data, size_t bytes, int root);

// Reduces in place. All ranks get the same bits: each block is combined at one rank, and in recursive doubling both
// partners combine the same two operands, ordered by rank.
using AllReduce = void (*)(Mesh& mesh, BufferView buffer, ReduceOp op);
// The all-reduce called `algorithm`; any other name is a bug of the caller:
// - "ring": 2 (k-1)/k n sent in 2 (k-1) rounds (Patarasuk and Yuan, 2009).
// - "halving_doubling": 2 (k-1)/k n sent in 2 log2 k rounds (Thakur, Rabenseifner and Gropp, 2005). Where k is no power
//   of two, each rank above the largest one within k gives its n to a lower rank and gets the result: n and two rounds
//   more.
// - "bcube": as "halving_doubling" in groups of four, each of which exchanges its blocks in one round while they are
//   small: 2 (k-1)/k n sent in 2 log4 k rounds. What is left of k without its factors of four is one more group.
// - "auto": recursive doubling for two ranks, and for small buffers on 2^m ranks (log2(k) n sent in log2 k rounds; with
//   two ranks that is as little as any algorithm sends, in one round instead of two); else the ring.
AllReduce all_reduce_named(std::string_view algorithm);

// Block r of `data` is the bytes [offsets[r], offsets[r + 1]). Precondition: the caller's own block is in place. By a
// ring: all blocks but one are sent.
void all_gather(Mesh& mesh, std::byte* data, std::span<const size_t> offsets);

// Combines block r of all ranks at rank r, in place; the other blocks are lost. By a ring: all blocks but one are sent.
void reduce_scatter(Mesh& mesh, std::byte* data, std::span<const size_t> offsets, Combine combine);

// Reduces in place; the result is at root. By a ring reduce-scatter, after which each rank sends its block.
void reduce(Mesh& mesh, BufferView buffer, ReduceOp op, int root);

// Brings n bytes of each rank, in rank order, into the root's `output`. The root takes them from one rank after the
// other: its link limits the speed.
void gather(Mesh& mesh, const std::byte* input, size_t bytes, std::byte* output, int root);
// Brings n bytes of the root's `input` to each rank.
void scatter(Mesh& mesh, const std::byte* input, std::byte* output, size_t bytes, int root);

// Bytes [out[r], out[r + 1]) of `input` go to rank r, and [in[r], in[r + 1]) of `output` come from it. By pairs: in
// step s = 1 ... k - 1 a rank sends to the rank s after it and receives from the rank s before it.
void all_to_all(Mesh& mesh, const std::byte* input, std::span<const size_t> out, std::byte* output,
                std::span<const size_t> in);

}  // namespace mlbench::comm::gloo_backend::collectives
