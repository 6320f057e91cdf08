#include "mlbench/base/heap.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/resource.h>

#include <cstring>
#include <memory>

namespace mlbench {
namespace {

constexpr size_t kBlockBytes = 20 << 20;

int64_t page_faults_of_a_block() {
  rusage before{}, after{};
  getrusage(RUSAGE_THREAD, &before);
  const std::unique_ptr<char[]> block(new char[kBlockBytes]);
  std::memset(block.get(), 1, kBlockBytes);
  EXPECT_EQ(block[kBlockBytes / 2], 1);
  getrusage(RUSAGE_THREAD, &after);
  return after.ru_minflt - before.ru_minflt;
}

// A sanitizer's leaves glibc's without a byte.
bool is_glibcs_allocator() {
  const std::unique_ptr<char[]> block(new char[kBlockBytes]);
  const struct mallinfo2 info = mallinfo2();
  const_cast<volatile char&>(block[0]) = 1;
  return info.uordblks + info.hblkhd >= kBlockBytes;
}

TEST(Heap, FreedMemoryIsTakenAgain) {
  if (!is_glibcs_allocator()) GTEST_SKIP() << "missing capability: glibc's own allocator";
  keep_freed_memory();
  page_faults_of_a_block();
  EXPECT_LT(page_faults_of_a_block(), 16);
  EXPECT_LT(page_faults_of_a_block(), 16);
}

}  // namespace
}  // namespace mlbench
