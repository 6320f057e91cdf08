#pragma once

// What a record says about the machine: captured, never assumed; what cannot be read is null, not zero.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench {

// Cores that this process may keep busy: those of its affinity mask, and no more than the whole cores of its cgroup
// quota (2.5 count as 2). At least 1.
int available_cores();
// Cores of this host, whatever the affinity mask of this process is, and no more than the whole cores of its cgroup
// quota. At least 1.
int host_cores();
// Memory of this host, or the smaller limit of the process's cgroup. Empty where the kernel does not say.
std::optional<int64_t> host_memory_bytes();
// Largest resident memory of this process so far.
int64_t peak_rss_bytes();
// The numbers of the cores in the calling thread's affinity mask, ascending. Empty where the kernel does not say.
std::vector<int> allowed_cores();
// The calling thread, and those that it starts from now on, run on these cores alone (at least one). False: the system
// refuses.
bool bind_thread(std::span<const int> cores);
inline bool bind_thread(int core) { return bind_thread(std::span<const int>(&core, 1)); }

// Of all cores, since boot.
struct CpuTicks {
  int64_t all = 0;
  int64_t busy = 0;  // neither idle nor waiting for a disk
  int64_t steal = 0;
};
// From the text of /proc/stat; empty where that has not all of it.
std::optional<CpuTicks> parse_cpu_ticks(const std::string& stat);

// Of all network interfaces but the loopback, since they were made.
struct NetworkBytes {
  int64_t received = 0, sent = 0;
  bool operator==(const NetworkBytes&) const = default;
};
// From the text of /proc/net/dev, which is that of the reader's network namespace: of a pod, or of a host.
NetworkBytes parse_network_bytes(const std::string& text);

std::string host_name();
// Identity of this boot of this host: boot id of the kernel, with the network namespace's inode.
std::string boot_id();

// {name, addresses[], cpu|null, cores, ram_bytes|null, firmware|null, nics[{name, speed_mbit|null}], gpus[{name}],
// load_1m|null, steal_percent|null}. Loopback and link-local addresses are left out. Measures CPU steal over
// `sample_ms` (0: since boot), sleeping that long.
Json capture_host(int sample_ms);

// {version, git_describe, build_id, build_type, compiler, libraries{name: version}, kernel, os|null, gpu_driver|null}:
// the running program's own.
Json capture_environment();

}  // namespace mlbench
