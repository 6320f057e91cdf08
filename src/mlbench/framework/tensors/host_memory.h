#pragma once

// Where large tensors on the host get their memory. A step frees blocks that the next one asks for again; handed back
// to the system, each of their pages would be cleared anew. base/heap.h keeps what the C library keeps: blocks over
// 32 MiB it cannot, and of aligned blocks (all of LibTorch's) glibc before 2.38 often leaves a gap that is some bytes
// too small for the next of the same size.

#include <cstddef>

namespace mlbench::framework {

inline constexpr size_t kLeastKeptBlock = size_t{1} << 20;  // smaller ones are LibTorch's own affair

// From now on LibTorch takes freed large blocks of about the size again, on all threads. Values don't depend on it.
// What is kept beside the blocks in use is never more than the most that was in use at once; the blocks freed longest
// ago go first. When memory runs out, all of them go. Calls after the first do nothing.
void keep_large_blocks();

struct LargeBlocks {
  size_t used_bytes = 0, most_used_bytes = 0, kept_bytes = 0;
};
LargeBlocks large_blocks();

}  // namespace mlbench::framework
