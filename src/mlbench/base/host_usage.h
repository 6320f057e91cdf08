#pragma once

// What all programs together use of this host.

#include <cstdint>
#include <string>

#include "mlbench/base/environment.h"

namespace mlbench {

struct HostMemory {
  double used_bytes = 0, total_bytes = 0;
};

struct HostUsage {
  CpuTicks ticks;        // of all cores
  HostMemory memory;     // of the host, or of the control group where its limit is lower
  NetworkBytes network;  // since the host started, without loopback
};

// Throws IoError where the kernel does not say.
HostUsage read_host_usage();

// Processor time of all cores in seconds, since the host started.
double processor_seconds(const CpuTicks& ticks);

// From the text of /proc/meminfo.
HostMemory parse_memory(const std::string& text);

}  // namespace mlbench
