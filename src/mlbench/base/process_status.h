#pragma once

// What the kernel says of a process of this host, in /proc/PID/stat (proc(5)).

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

namespace mlbench {

struct ProcessStatus {
  pid_t parent = 0, group = 0, session = 0;
  char state = '?';             // R S D T t Z X ...
  uint64_t start_time = 0;      // in clock ticks since boot; pid and start time identify a process
  int64_t processor_ticks = 0;  // so far, in user and system mode; sysconf(_SC_CLK_TCK) ticks are a second
  int64_t waited_ticks = 0;     // the ticks of the children that it has waited for
  int64_t pages = 0;            // resident pages of sysconf(_SC_PAGESIZE) bytes

  bool ended() const { return state == 'Z' || state == 'X'; }
};

// The status of a process. Empty when there is no such process (any more), or when /proc does not say.
std::optional<ProcessStatus> process_status(pid_t pid);

// The inode of this process's PID namespace, within which a pid means something. 0 where there is no /proc.
uint64_t own_pid_namespace();

// The status in the text of such a file.
std::optional<ProcessStatus> parse_process_status(const std::string& text);

}  // namespace mlbench
