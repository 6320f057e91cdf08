#include "mlbench/base/host_usage.h"

#include <unistd.h>

#include <sstream>

#include "mlbench/base/cgroups.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"

namespace mlbench {

HostUsage read_host_usage() {
  const auto ticks = parse_cpu_ticks(read_file("/proc/stat"));
  if (!ticks) throw IoError("/proc/stat has not all columns");
  HostUsage usage{*ticks, parse_memory(read_file("/proc/meminfo")), parse_network_bytes(read_file("/proc/net/dev"))};
  if (const auto group = cgroup_memory()) {
    const auto limit = static_cast<double>(group->limit_bytes);
    if (limit < usage.memory.total_bytes) usage.memory = {static_cast<double>(group->used_bytes), limit};
  }
  return usage;
}

double processor_seconds(const CpuTicks& ticks) {
  return static_cast<double>(ticks.busy) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

HostMemory parse_memory(const std::string& text) {
  std::istringstream in(text);
  double total = 0, available = 0;
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    std::string name;
    double kib = 0;
    fields >> name >> kib;
    if (name == "MemTotal:") total = kib;
    if (name == "MemAvailable:") available = kib;
  }
  return {(total - available) * 1024, total * 1024};
}

}  // namespace mlbench
