#include "mlbench/framework/threads.h"

#include <gtest/gtest.h>
#include <omp.h>

#include <thread>
#include <vector>

#include "mlbench/base/environment.h"
#include "mlbench/framework/contract_test.h"

namespace mlbench::framework {
namespace {

TEST(Threads, EachOnACoreOfItsOwn) {
  const std::vector<int> before = allowed_cores();
  if (before.size() < 2) GTEST_SKIP() << "missing capability: two cores";
  // A thread of its own has a pool of its own, which ends with it.
  std::thread([&] {
    EXPECT_FALSE(bind_threads({}));
    EXPECT_EQ(allowed_cores(), before);

    EXPECT_TRUE(bind_threads(std::vector{before[1], before[0]}));
    std::vector<std::vector<int>> cores(2);
#pragma omp parallel num_threads(2)
    cores[static_cast<size_t>(omp_get_thread_num())] = allowed_cores();
    EXPECT_EQ(cores[0], std::vector{before[1]});
    EXPECT_EQ(cores[1], std::vector{before[0]});

    EXPECT_FALSE(bind_threads(std::vector{before[0], 1 << 20}));
  }).join();
  EXPECT_EQ(allowed_cores(), before);
}

TEST(Threads, NoneIsBoundWhereThereAreFewerThanCores) {
  const std::vector<int> before = allowed_cores();
  if (before.size() < 2) GTEST_SKIP() << "missing capability: two cores";
  std::thread([&] {
    const contract::OneThreadOnly limit;
    EXPECT_FALSE(bind_threads(std::vector{before[0], before[1]}));
    EXPECT_EQ(allowed_cores(), before);
    EXPECT_TRUE(bind_threads(std::vector{before[0]}));
  }).join();
  EXPECT_EQ(allowed_cores(), before);
}

}  // namespace
}  // namespace mlbench::framework
