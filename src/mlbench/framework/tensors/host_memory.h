#pragma once

// Memory for large tensors on the host. A step frees blocks that the next step asks for again. If these went back to
// the system, it would clear each page anew. base/heap.h lets the C library keep what it can. But the C library cannot
// keep blocks over 32 MiB, and of aligned blocks (all of LibTorch's) glibc before 2.38 often leaves a gap that is some
// bytes too small for the next block of the same size.

#include <cstddef>

namespace mlbench::framework {

inline constexpr size_t kLeastKeptBlock = size_t{1} << 20;  // bytes; LibTorch's own allocator serves smaller blocks

// From now on LibTorch reuses freed large blocks of about the wanted size, on all threads. Values do not depend on
// this. The blocks kept beside those in use never exceed the most bytes that were in use at once; the blocks freed
// longest ago go first. When memory runs out, all kept blocks go. Calls after the first do nothing.
void keep_large_blocks();

struct LargeBlocks {
  size_t used_bytes = 0, most_used_bytes = 0, kept_bytes = 0;
};
LargeBlocks large_blocks();

}  // namespace mlbench::framework
