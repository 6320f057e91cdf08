#include "mlbench/base/blocks.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>
#include <vector>

namespace mlbench {
namespace {

TEST(Blocks, CoverAllNumbersOnce) {
  for (const int threads : {1, 2, 3}) {
    for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{1000}}) {
      std::vector<std::atomic<int>> calls(count);
      const auto caller = std::this_thread::get_id();
      for_blocks(count, 4, threads, [&](int thread, size_t begin, size_t end) {
        EXPECT_EQ(thread == 0, std::this_thread::get_id() == caller);
        EXPECT_LT(thread, threads);
        EXPECT_LE(end - begin, 4U);
        for (size_t i = begin; i < end; ++i) ++calls[i];
      });
      for (const auto& number : calls) EXPECT_EQ(number, 1) << count << " on " << threads;
    }
  }
}

TEST(Blocks, NoneBeginsBehindOneThatThrows) {
  for (const int threads : {1, 2, 3}) {
    std::atomic<size_t> begun = 0;
    const auto work = [&](int, size_t begin, size_t) {
      ++begun;
      if (begin >= 8) throw std::runtime_error("block");
    };
    EXPECT_THROW(for_blocks(100'000, 4, threads, work), std::runtime_error);
    EXPECT_LE(begun, 2U + static_cast<size_t>(threads));
  }
}

}  // namespace
}  // namespace mlbench
