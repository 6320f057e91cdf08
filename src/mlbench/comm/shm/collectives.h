#pragma once

// Collectives that move bytes through a group's slots (reductions.h has those that compute). Every rank calls them with
// sizes that fit together; there are at least two ranks. Slice r of a buffer is [offsets[r], offsets[r + 1]) bytes.
//
// All copy twice: into a slot of the sender and out of it; up to 56 bytes go along with the step that announces them.

#include <cstddef>
#include <span>

#include "mlbench/comm/shm/group.h"

namespace mlbench::comm::shm_backend::collectives {

void barrier(Group& group);

void broadcast(Group& group, std::byte* data, size_t bytes, int root);

// `input` is this rank's slice of `output`.
void all_gather(Group& group, const std::byte* input, std::byte* output, std::span<const size_t> offsets);

// `bytes` from each rank, in order, to root.
void gather(Group& group, const std::byte* input, size_t bytes, std::byte* output, int root);

// `bytes` from root to each rank.
void scatter(Group& group, const std::byte* input, std::byte* output, size_t bytes, int root);

// Slice r of `input` goes to rank r, slice r of `output` comes from it. `largest`: no slice of any rank is longer, and
// all ranks say the same.
void all_to_all(Group& group, const std::byte* input, std::span<const size_t> input_offsets, std::byte* output,
                std::span<const size_t> output_offsets, size_t largest);

// The largest of what the ranks say.
size_t largest_of(Group& group, size_t mine);

}  // namespace mlbench::comm::shm_backend::collectives
