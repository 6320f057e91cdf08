#pragma once

// What a record says about the machine: captured, never assumed; what cannot be read is null, not zero.

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "mlbench/base/json.h"

namespace mlbench {

// Cores that this process may run on (affinity mask and cgroup quota respected), at least 1.
int available_cores();

std::string host_name();
// Identity of this boot of this host: boot id of the kernel, with the network namespace's inode.
std::string boot_id();

// {name, addresses[], cpu, cores, ram_bytes, nics[{name, speed_mbit|null}], gpus[], load_1m, steal_percent|null}.
// Measures CPU steal over `sample_ms` (0: since boot).
Json capture_host(int sample_ms);

// {git_describe, build_type, compiler, libraries{name: version}, kernel, ...}: the running program's own.
Json capture_environment();

}  // namespace mlbench
