#include "mlbench/framework/tensors/host_memory.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

namespace mlbench::framework {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

at::Tensor block(int64_t bytes) { return at::empty({bytes}, at::kByte); }

TEST(HostMemory, ABlockIsTakenAgain) {
  keep_large_blocks();
  for (const int64_t bytes : {2 * kMiB, 20 * kMiB, 70 * kMiB + 12345}) {
    at::Tensor one = block(bytes);
    one.fill_(7);
    const void* const place = one.const_data_ptr();
    one = at::Tensor();
    const at::Tensor next = block(bytes - kMiB / 16);  // of about its size
    EXPECT_EQ(next.const_data_ptr(), place) << bytes;
    EXPECT_EQ(reinterpret_cast<uintptr_t>(place) % 64, 0U);
  }
}

TEST(HostMemory, OneThatIsInUseOrTooSmallIsNot) {
  keep_large_blocks();
  const at::Tensor used = block(3 * kMiB);
  const at::Tensor other = block(3 * kMiB);
  EXPECT_NE(used.const_data_ptr(), other.const_data_ptr());
  at::Tensor freed = block(40 * kMiB);
  const void* const place = freed.const_data_ptr();
  freed = at::Tensor();
  EXPECT_NE(block(60 * kMiB).const_data_ptr(), place);
  EXPECT_NE(block(10 * kMiB).const_data_ptr(), place);
}

TEST(HostMemory, KeepsNoMoreThanWasInUseAtOnce) {
  keep_large_blocks();
  for (int64_t bytes = kMiB; bytes < 200 * kMiB; bytes += bytes / 2) {
    const at::Tensor one = block(bytes);
    EXPECT_GE(large_blocks().used_bytes, static_cast<size_t>(bytes));
  }
  const LargeBlocks blocks = large_blocks();
  EXPECT_GT(blocks.kept_bytes, 0U);
  EXPECT_LE(blocks.kept_bytes, blocks.most_used_bytes);
}

TEST(HostMemory, SmallBlocksAndThoseFromBeforeStayLibTorchs) {
  at::Tensor before = block(5 * kMiB).fill_(3);
  keep_large_blocks();
  const size_t used = large_blocks().used_bytes;
  const at::Tensor small = block(kMiB / 2).fill_(4);
  EXPECT_EQ(large_blocks().used_bytes, used);
  EXPECT_EQ(small.sum().item<int64_t>(), 2 * kMiB);
  EXPECT_EQ(before.sum().item<int64_t>(), 15 * kMiB);
  before = at::Tensor();
  EXPECT_LE(large_blocks().used_bytes, used);
}

TEST(HostMemory, ServesAllThreads) {
  keep_large_blocks();
  const size_t used = large_blocks().used_bytes;
  std::vector<int64_t> sums(4, 0);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < sums.size(); ++t) {
      threads.emplace_back([&sums, t] {
        for (int round = 0; round < 20; ++round) {
          const at::Tensor one = block((1 + round % 3) * kMiB).fill_(static_cast<int64_t>(t));
          sums[t] += one.max().item<int64_t>() + one.min().item<int64_t>();
        }
      });
    }
  }
  for (size_t t = 0; t < sums.size(); ++t) EXPECT_EQ(sums[t], 40 * static_cast<int64_t>(t));
  EXPECT_EQ(large_blocks().used_bytes, used);
}

}  // namespace
}  // namespace mlbench::framework
