#pragma once

// Collectives that move bytes through a group's slots (those that compute are in reductions.h). Every rank calls them
// with sizes that fit together. Precondition: there are at least two ranks. Slice r of a buffer is the bytes
// [offsets[r], offsets[r + 1]).
//
// All of them copy twice: into a slot of the sender, and out of that slot. Up to 56 bytes go along with the step.

#include <cstddef>
#include <span>

#include "mlbench/comm/shm/group.h"

namespace mlbench::comm::shm_backend::collectives {

void barrier(Group& group);

void broadcast(Group& group, std::byte* data, size_t bytes, int root);

// `input` is this rank's slice of `output`.
void all_gather(Group& group, const std::byte* input, std::byte* output, std::span<const size_t> offsets);

// `bytes` from each rank go, in rank order, into `output` of `root`.
void gather(Group& group, const std::byte* input, size_t bytes, std::byte* output, int root);

// `bytes` of the root's `input` go to each rank, in rank order.
void scatter(Group& group, const std::byte* input, std::byte* output, size_t bytes, int root);

// Slice r of `input` goes to rank r, and slice r of `output` comes from it. No slice of any rank may be longer than
// `largest`, which is the same on all ranks.
void all_to_all(Group& group, const std::byte* input, std::span<const size_t> input_offsets, std::byte* output,
                std::span<const size_t> output_offsets, size_t largest);

// Returns the largest `mine` of all ranks.
size_t largest_of(Group& group, size_t mine);

}  // namespace mlbench::comm::shm_backend::collectives
