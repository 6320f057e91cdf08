#pragma once

// What /proc says of processes of this host.

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace mlbench::supervise {

struct ProcessStatus {
  char state = '?';         // R S D T t Z ... as in proc(5)
  uint64_t start_time = 0;  // clock ticks since boot: with the pid, identifies a process
};

// Empty when there is no such process (any more).
std::optional<ProcessStatus> process_status(pid_t pid);

}  // namespace mlbench::supervise
