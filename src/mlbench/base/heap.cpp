#include "mlbench/base/heap.h"

#include <malloc.h>

namespace mlbench {

void keep_freed_memory() {
  constexpr int kNever = -1;
  constexpr int kLargestInHeap = 32 << 20;  // the most that glibc takes; larger blocks are mapped one by one
  constexpr int kGrowth = 64 << 20;
  mallopt(M_TRIM_THRESHOLD, kNever);
  mallopt(M_MMAP_THRESHOLD, kLargestInHeap);
  mallopt(M_TOP_PAD, kGrowth);
}

}  // namespace mlbench
