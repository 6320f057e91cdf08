#include "mlbench/base/descriptors.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <chrono>

#include "mlbench/base/process.h"

namespace mlbench {
namespace {

TEST(Descriptors, TheLimitIsRaisedForUsAlone) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  if (before.rlim_max < 128) GTEST_SKIP() << "missing capability: 128 descriptors";
  const rlimit small{100, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &small), 0);
  EXPECT_EQ(raise_descriptor_limit(128), 128U);
  EXPECT_EQ(raise_descriptor_limit(128), 128U);
  rlimit now{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &now), 0);
  EXPECT_EQ(now.rlim_cur, 128U);
  ProcessOptions options;
  options.arguments = {"/bin/sh", "-c", "ulimit -n"};
  EXPECT_EQ(run_process(options, std::chrono::seconds(60)).standard_output, "100\n");
  setrlimit(RLIMIT_NOFILE, &before);
}

}  // namespace
}  // namespace mlbench
