#include "mlbench/base/environment.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "mlbench/base/build_info.h"
#include "mlbench/base/cgroups.h"
#include "mlbench/base/files.h"

namespace mlbench {
namespace {

namespace fs = std::filesystem;

TEST(Environment, AvailableCoresFollowTheAffinityMask) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const int cores = available_cores();
  EXPECT_GE(cores, 1);
  EXPECT_LE(cores, CPU_COUNT(&before));
  cpu_set_t one;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &before)) continue;
    CPU_SET(cpu, &one);
    break;
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  EXPECT_EQ(available_cores(), 1);
  EXPECT_EQ(allowed_cores().size(), 1u);
  ASSERT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(available_cores(), cores);
  EXPECT_EQ(std::ssize(allowed_cores()), CPU_COUNT(&before));
}

TEST(Environment, AThreadIsBoundAlone) {
  const std::vector<int> before = allowed_cores();
  ASSERT_FALSE(before.empty());
  std::thread([core = before.back()] {
    EXPECT_TRUE(bind_thread(core));
    EXPECT_EQ(allowed_cores(), std::vector<int>{core});
    EXPECT_FALSE(bind_thread(1 << 20)) << "no machine has it";
    EXPECT_EQ(allowed_cores(), std::vector<int>{core});
  }).join();
  EXPECT_EQ(allowed_cores(), before);
}

// What a thread does that its bound parent starts: the parent's mask is no bound to it.
TEST(Environment, AThreadOfABoundOneMayRunOnMoreCores) {
  const std::vector<int> before = allowed_cores();
  if (before.size() < 2) GTEST_SKIP() << "missing capability: two cores";
  std::thread([&] {
    EXPECT_TRUE(bind_thread(before[0]));
    std::thread([&] {
      EXPECT_EQ(allowed_cores(), std::vector<int>{before[0]});
      EXPECT_TRUE(bind_thread(std::vector<int>{before[1], before[0]}));
      EXPECT_EQ(allowed_cores(), (std::vector<int>{before[0], before[1]}));
    }).join();
    EXPECT_EQ(allowed_cores(), std::vector<int>{before[0]});
  }).join();
}

TEST(Environment, HostAndBoot) {
  char name[256];
  ASSERT_EQ(gethostname(name, sizeof name), 0);
  EXPECT_EQ(host_name(), name);
  EXPECT_EQ(boot_id(), boot_id());
  if (fs::exists("/proc/sys/kernel/random/boot_id")) {
    const std::string kernel = read_file("/proc/sys/kernel/random/boot_id").substr(0, 36);
    EXPECT_EQ(boot_id().substr(0, 37), kernel + ":");
  }
}

TEST(Environment, HostIsCapturedWithNullForWhatCannotBeRead) {
  for (const int sample_ms : {0, 50}) {
    const Json host = capture_host(sample_ms);
    EXPECT_EQ(host.at("name"), host_name());
    EXPECT_EQ(host.at("cores"), available_cores());
    ASSERT_TRUE(host.at("ram_bytes").is_number_integer());
    // MemTotal is the page count that sysconf gives; a smaller limit of the process's control group counts instead.
    const auto group = cgroup_memory();
    const int64_t machine = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
    EXPECT_EQ(host.at("ram_bytes").get<int64_t>(), std::min(machine, group ? group->limit_bytes : machine));
    EXPECT_TRUE(host.at("cpu").is_string() || host.at("cpu").is_null());
    EXPECT_TRUE(host.at("gpus").is_array());
    EXPECT_TRUE(host.at("firmware").is_string() || host.at("firmware").is_null());
    for (const Json& address : host.at("addresses")) {
      EXPECT_NE(address, "127.0.0.1");
      EXPECT_NE(address, "::1");
    }
    for (const Json& nic : host.at("nics")) {
      EXPECT_NE(nic.at("name"), "lo");
      const Json& speed = nic.at("speed_mbit");
      EXPECT_TRUE(speed.is_null() || speed.get<int64_t>() > 0) << nic;
    }
    const Json& nodes = host.at("numa_nodes");
    EXPECT_EQ(nodes.is_null(), !fs::exists("/sys/devices/system/node/node0"));
    EXPECT_TRUE(nodes.is_null() || nodes.get<int64_t>() > 0);
    const Json& clock = host.at("clock");
    if (!clock.is_null()) {
      EXPECT_TRUE(clock.at("synchronised").is_boolean());
      EXPECT_GE(clock.at("error_ms").get<double>(), 0.0);
    }
    EXPECT_GE(host.at("load_1m").get<double>(), 0.0);
    const Json& steal = host.at("steal_percent");
    if (!steal.is_null()) {
      EXPECT_GE(steal.get<double>(), 0.0);
      EXPECT_LE(steal.get<double>(), 100.0);
    }
  }
}

TEST(Environment, ProgramIsCaptured) {
  const Json environment = capture_environment();
  EXPECT_EQ(environment.at("build_id"), build_info().build_id);
  EXPECT_EQ(environment.at("git_describe"), build_info().git_describe);
  EXPECT_EQ(environment.at("libraries").at("fmt"), build_info().libraries.at("fmt"));
  EXPECT_TRUE(environment.at("kernel").is_string());
  for (const char* key : {"version", "build_type", "compiler", "os", "gpu_driver"}) {
    EXPECT_TRUE(environment.contains(key)) << key;
  }
}

}  // namespace
}  // namespace mlbench
