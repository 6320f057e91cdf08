#pragma once

// What a record says about the machine: captured, never assumed. What cannot be read is null, not zero.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench {

// The number of cores that this process may keep busy: those of its affinity mask, but no more than the whole cores of
// its cgroup quota (2.5 counts as 2). At least 1.
int available_cores();
// The number of this host's cores, whatever the affinity mask of this process is, but no more than the whole cores of
// its cgroup quota. At least 1.
int host_cores();
// This host's memory, or the limit of the process's cgroup where that is smaller. Empty where the kernel does not say.
std::optional<int64_t> host_memory_bytes();
// The largest resident memory of this process so far.
int64_t peak_rss_bytes();
// The numbers of the cores in the calling thread's affinity mask, ascending. Empty where the kernel does not say.
std::vector<int> allowed_cores();
// From now on, the calling thread and the threads that it starts run on these cores alone. Precondition: `cores` has at
// least one. Returns false when the system refuses.
bool bind_thread(std::span<const int> cores);
inline bool bind_thread(int core) { return bind_thread(std::span<const int>(&core, 1)); }

// The ticks of all cores since boot.
struct CpuTicks {
  int64_t all = 0;
  int64_t busy = 0;  // neither idle nor waiting for a disk
  int64_t steal = 0;
};
// The ticks in the text of /proc/stat; empty where that text lacks any of them.
std::optional<CpuTicks> parse_cpu_ticks(const std::string& stat);

// The bytes of all network interfaces but the loopback, since each interface was made.
struct NetworkBytes {
  int64_t received = 0, sent = 0;
  bool operator==(const NetworkBytes&) const = default;
};
// The bytes in the text of /proc/net/dev. The file is about the network namespace of its reader: a pod's or a host's.
NetworkBytes parse_network_bytes(const std::string& text);

std::string host_name();
// Identifies this boot of this host: the kernel's boot id together with the inode of the network namespace.
std::string boot_id();

// What this host says of itself: {name, addresses[], cpu|null, cores, ram_bytes|null, firmware|null, nics[{name,
// speed_mbit|null}], gpus[{name}], numa_nodes|null, clock{synchronised, error_ms}|null, load_1m|null,
// steal_percent|null}, without loopback and link-local addresses. Steal is over `sample_ms` of sleep; 0: since boot.
Json capture_host(int sample_ms);

// What the running program says of itself: {version, git_describe, build_id, build_type, compiler, libraries{name:
// version}, kernel, os|null, gpu_driver|null}.
Json capture_environment();

}  // namespace mlbench
