#pragma once

// What the kernel holds the control group of this process to, in cgroup versions 1 and 2: in a container, a batch job
// or a unit of systemd that is the machine. `root` stands before /proc and /sys/fs/cgroup.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace mlbench {

// The smallest CPU quota of the process's group and its parents, in cores; empty when none is set.
std::optional<double> cgroup_cpu_quota(const std::filesystem::path& root = "/");

struct CgroupMemory {
  int64_t limit_bytes = 0;
  int64_t used_bytes = 0;  // by all of the group that has this limit, without pages of files that it can do without
};
// The smallest memory limit of the process's group and its parents; empty when none is set.
std::optional<CgroupMemory> cgroup_memory(const std::filesystem::path& root = "/");

// How many processes of the process's group the kernel has killed because memory ran out; empty where the kernel does
// not say.
std::optional<int64_t> cgroup_out_of_memory_kills(const std::filesystem::path& root = "/");

}  // namespace mlbench
