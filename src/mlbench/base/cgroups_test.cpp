#include "mlbench/base/cgroups.h"

#include <gtest/gtest.h>

#include <utility>

#include "mlbench/base/files.h"

namespace mlbench {
namespace {

namespace fs = std::filesystem;

using Memory = std::pair<int64_t, int64_t>;  // the smallest limit, and what is used of it, in bytes; -1: no limit

class Cgroups : public testing::Test {
 protected:
  void put(const std::string& path, const std::string& content) {
    fs::create_directories((root_ / path).parent_path());
    write_file_atomically(root_ / path, content);
  }
  Memory memory() const {
    const auto memory = cgroup_memory(root_.path());
    return memory ? Memory(memory->limit_bytes, memory->used_bytes) : Memory(-1, -1);
  }
  TemporaryFolder root_;
};

TEST_F(Cgroups, NothingIsKnownWithoutThem) {
  EXPECT_FALSE(cgroup_cpu_quota(root_.path()));
  EXPECT_FALSE(cgroup_memory(root_.path()));
  EXPECT_FALSE(cgroup_out_of_memory_kills(root_.path()));
}

TEST_F(Cgroups, QuotaOfVersion2) {
  put("proc/self/cgroup", "0::/user/job\n");
  put("sys/fs/cgroup/user/job/cpu.max", "max 100000\n");
  EXPECT_FALSE(cgroup_cpu_quota(root_.path()));
  put("sys/fs/cgroup/user/job/cpu.max", "250000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root_.path()), 2.5);
}

TEST_F(Cgroups, QuotaOfVersion2IsTheSmallestOfAllParents) {
  put("proc/self/cgroup", "0::/a/b/c\n");
  put("sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n");
  put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/a/cpu.max", "50000 100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root_.path()), 0.5);
}

TEST_F(Cgroups, QuotaInAContainerThatSeesTheHostsPath) {
  put("proc/self/cgroup", "0::/kubepods/pod1/container2\n");
  put("sys/fs/cgroup/cpu.max", "150000 50000\n");
  EXPECT_EQ(cgroup_cpu_quota(root_.path()), 3.0);
}

TEST_F(Cgroups, QuotaOfVersion1) {
  put("proc/self/cgroup", "12:cpuset:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/job\n");
  put("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(cgroup_cpu_quota(root_.path()));
  put("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "400000\n");
  EXPECT_EQ(cgroup_cpu_quota(root_.path()), 4.0);
}

TEST_F(Cgroups, QuotaOfVersion1WhereControllersShareAFolder) {
  put("proc/self/cgroup", "4:cpu,cpuacct:/job\n");
  put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "150000\n");
  put("sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root_.path()), 1.5);
}

TEST_F(Cgroups, QuotaOfBothVersionsAtOnce) {
  put("proc/self/cgroup", "4:cpu,cpuacct:/job\n0::/\n");
  put("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "300000\n");
  put("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpu_quota(root_.path()), 3.0);
}

TEST_F(Cgroups, MemoryOfVersion2) {
  put("proc/self/cgroup", "0::/user/job\n");
  put("sys/fs/cgroup/user/job/memory.max", "max\n");
  put("sys/fs/cgroup/user/job/memory.current", "5000\n");
  EXPECT_EQ(memory(), Memory(-1, -1));
  put("sys/fs/cgroup/user/job/memory.max", "734003200\n");
  EXPECT_EQ(memory(), Memory(734003200, 5000));
  put("sys/fs/cgroup/user/job/memory.stat", "anon 4000\ninactive_file 900\nactive_file 100\n");
  EXPECT_EQ(memory(), Memory(734003200, 4100));
}

TEST_F(Cgroups, MemoryIsTheSmallestLimitOfAllParents) {
  put("proc/self/cgroup", "0::/a/b/c\n");
  put("sys/fs/cgroup/a/b/c/memory.max", "9000\n");
  put("sys/fs/cgroup/a/b/c/memory.current", "10\n");
  put("sys/fs/cgroup/a/b/memory.max", "max\n");
  put("sys/fs/cgroup/a/memory.max", "8000\n");
  put("sys/fs/cgroup/a/memory.current", "70\n");
  EXPECT_EQ(memory(), Memory(8000, 70));
}

TEST_F(Cgroups, MemoryInAContainerThatSeesTheHostsPath) {
  for (const char* line : {"0::/kubepods/pod1/container2\n", "6:memory:/kubepods/pod1/container2\n"}) {
    put("proc/self/cgroup", line);
    put("sys/fs/cgroup/memory.max", "4096\n");
    put("sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n");
    EXPECT_EQ(memory(), Memory(4096, 0)) << line;
  }
}

TEST_F(Cgroups, MemoryOfVersion1) {
  put("proc/self/cgroup", "5:cpuset:/job\n4:memory:/job\n0::/\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(memory(), Memory(-1, -1)) << "so version 1 spells none";
  put("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "734003200\n");
  put("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "6000\n");
  put("sys/fs/cgroup/memory/job/memory.stat", "cache 2000\ninactive_file 1\ntotal_inactive_file 1000\n");
  EXPECT_EQ(memory(), Memory(734003200, 5000));
}

TEST_F(Cgroups, KillsAreThoseOfItsOwnGroup) {
  put("proc/self/cgroup", "0::/a/b\n");
  put("sys/fs/cgroup/a/memory.events", "low 0\noom 9\noom_kill 9\noom_group_kill 0\n");
  put("sys/fs/cgroup/a/b/memory.events", "low 0\nhigh 0\nmax 81\noom 3\noom_kill 2\noom_group_kill 0\n");
  EXPECT_EQ(cgroup_out_of_memory_kills(root_.path()), 2);
  put("proc/self/cgroup", "4:memory:/a/b\n0::/\n");
  put("sys/fs/cgroup/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n");
  put("sys/fs/cgroup/memory/a/b/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n");
  EXPECT_EQ(cgroup_out_of_memory_kills(root_.path()), 4);
}

TEST_F(Cgroups, KillsInAContainerThatSeesTheHostsPath) {
  put("proc/self/cgroup", "0::/kubepods/pod1/container2\n");
  put("sys/fs/cgroup/memory.events", "oom 1\noom_kill 1\n");
  EXPECT_EQ(cgroup_out_of_memory_kills(root_.path()), 1);
  put("proc/self/cgroup", "4:memory:/kubepods/pod1/container2\n");
  put("sys/fs/cgroup/memory/memory.oom_control", "under_oom 0\noom_kill 6\n");
  EXPECT_EQ(cgroup_out_of_memory_kills(root_.path()), 6);
}

}  // namespace
}  // namespace mlbench
