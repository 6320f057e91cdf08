#pragma once

// Names the process to which something in shared memory belongs, and tells whether that process still lives.

#include <cstdint>

namespace mlbench::comm::shm_backend {

// Plain numbers, since a mark lies in shared memory and in names. All zero: it belongs to nobody.
struct ProcessMark {
  int64_t pid = 0;
  uint64_t start_time = 0;     // in clock ticks since boot; pid and start time identify a process
  uint64_t pid_namespace = 0;  // the namespace in which the pid means something
  bool operator==(const ProcessMark&) const = default;
};

ProcessMark own_mark();

// Reads /proc, which takes some 20 us. A zombie has ended. Returns false where this process cannot know: for nobody's
// mark, and for a mark of another PID namespace.
bool has_ended(const ProcessMark& mark);

}  // namespace mlbench::comm::shm_backend
