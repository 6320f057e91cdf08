#include "mlbench/base/heap.h"

#include <gtest/gtest.h>
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

TEST(Heap, FreedMemoryIsTakenAgain) {
  if (!keep_freed_memory()) GTEST_SKIP() << "missing capability: glibc's own allocator";
  page_faults_of_a_block();
  EXPECT_LT(page_faults_of_a_block(), 16);
  EXPECT_LT(page_faults_of_a_block(), 16);
}

}  // namespace
}  // namespace mlbench
