#pragma once

// Copies between a rank's own memory and memory through which bytes go to another rank, over and over.
//
// A cache line that one core writes and another core reads, in turns, makes the writer wait at each write until the
// reader's copy is gone: on a Zen 4, 8 ns per line, or 30 where the cores have no cache in common. From 16 KiB on it is
// faster to write past the caches, and to read with plain loads, for which the processor fetches ahead; below 16 KiB it
// is not. (Where the reader writes to the line, too, as in reductions, there is no such wait.)

#include <cstddef>

namespace mlbench::comm::shm_backend {

// `to` must be a multiple of 16. A rank that is told of the copy afterwards sees the bytes.
void put_bytes(std::byte* to, const std::byte* from, size_t bytes);

void take_bytes(std::byte* to, const std::byte* from, size_t bytes);

}  // namespace mlbench::comm::shm_backend
