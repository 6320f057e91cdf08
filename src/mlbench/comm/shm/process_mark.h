#pragma once

// Which process something in shared memory belongs to, and whether that one still lives.

#include <cstdint>

namespace mlbench::comm::shm_backend {

// Plain numbers, since it lies in shared memory and in names. All zero: nobody's.
struct ProcessMark {
  int64_t pid = 0;
  uint64_t start_time = 0;     // clock ticks since boot: with the pid, identifies a process
  uint64_t pid_namespace = 0;  // in which the pid means something
  bool operator==(const ProcessMark&) const = default;
};

ProcessMark own_mark();

// Reads /proc: some 20 us. A zombie has ended. False where this process cannot know: nobody's mark, or one of another
// PID namespace.
bool has_ended(const ProcessMark& mark);

}  // namespace mlbench::comm::shm_backend
