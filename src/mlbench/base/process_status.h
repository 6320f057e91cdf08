#pragma once

// What the kernel says of a process of this host: /proc/PID/stat, as in proc(5).

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace mlbench {

struct ProcessStatus {
  pid_t parent = 0, group = 0, session = 0;
  char state = '?';             // R S D T t Z X ...
  uint64_t start_time = 0;      // clock ticks since boot: with the pid, identifies a process
  int64_t processor_ticks = 0;  // in user and system mode so far; sysconf(_SC_CLK_TCK) are a second
  int64_t waited_ticks = 0;     // those of what it has started, and waited for
  int64_t pages = 0;            // resident, of sysconf(_SC_PAGESIZE)

  bool ended() const { return state == 'Z' || state == 'X'; }
};

// Empty when there is no such process (any more), or /proc does not say.
std::optional<ProcessStatus> process_status(pid_t pid);

// The inode of this process's PID namespace, within which pids mean something. 0 where there is no /proc.
uint64_t own_pid_namespace();

// Of the file's text.
std::optional<ProcessStatus> parse_process_status(const std::string& text);

}  // namespace mlbench
