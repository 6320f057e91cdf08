#include "mlbench/base/host_usage.h"

#include <gtest/gtest.h>

namespace mlbench {
namespace {

TEST(HostUsage, IsReadFromTheKernelsFiles) {
  const auto ticks = parse_cpu_ticks("cpu  10 1 5 100 4 0 2 0 0 0\ncpu0 1 1 1 1\n");
  ASSERT_TRUE(ticks);
  EXPECT_EQ(ticks->busy, 18);
  EXPECT_EQ(ticks->all, 122);
  const HostMemory memory = parse_memory("MemTotal: 4096 kB\nMemFree: 1 kB\nMemAvailable: 1024 kB\n");
  EXPECT_EQ(memory.used_bytes, 3072 * 1024);
  EXPECT_EQ(memory.total_bytes, 4096 * 1024);
  const NetworkBytes network = parse_network_bytes(
      "Inter-|   Receive  |  Transmit\n face |bytes packets\n    lo: 5000000 1 0 0 0 0 0 0 5000000 1\n"
      "  eth0: 1048576 1 0 0 0 0 0 0 2097152 1 0 0 0 0 0 0\n");
  EXPECT_EQ(network.received, 1'048'576);
  EXPECT_EQ(network.sent, 2'097'152);
}

TEST(HostUsage, OfThisHostRises) {
  const HostUsage before = read_host_usage();
  EXPECT_GT(before.memory.total_bytes, before.memory.used_bytes);
  EXPECT_GT(before.memory.used_bytes, 0);
  volatile double sum = 0;
  while (processor_seconds(read_host_usage().ticks) - processor_seconds(before.ticks) < 0.05) sum = sum + 1;
}

}  // namespace
}  // namespace mlbench
