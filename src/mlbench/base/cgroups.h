#pragma once

// What the kernel limits the control group of this process to, in cgroup versions 1 and 2. In a container, a batch job
// or a unit of systemd that group is the machine. `root` is put before /proc and /sys/fs/cgroup.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace mlbench {

// The smallest CPU quota of the process's group and the groups above it, in cores; empty when none is set.
std::optional<double> cgroup_cpu_quota(const std::filesystem::path& root = "/");

struct CgroupMemory {
  int64_t limit_bytes = 0;
  int64_t used_bytes = 0;  // by the whole group that has this limit, without the file pages that it can do without
};
// The smallest memory limit of the process's group and the groups above it; empty when none is set.
std::optional<CgroupMemory> cgroup_memory(const std::filesystem::path& root = "/");

// How many processes of this process's group the kernel has killed because memory ran out. Empty where the kernel does
// not say.
std::optional<int64_t> cgroup_out_of_memory_kills(const std::filesystem::path& root = "/");

}  // namespace mlbench
