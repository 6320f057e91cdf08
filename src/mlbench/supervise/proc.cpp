#include "mlbench/supervise/proc.h"

#include <unistd.h>

#include <sstream>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"

namespace mlbench::supervise {

std::optional<ProcessStatus> process_status(pid_t pid) {
  std::string text;
  try {
    text = read_file("/proc/" + std::to_string(pid) + "/stat");
  } catch (const IoError&) {
    return std::nullopt;
  }
  // The program's name stands in parentheses and may hold anything; fields are counted from behind it.
  const size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end_of_name + 1));
  ProcessStatus status;
  fields >> status.state;
  std::string skipped;
  for (int field = 4; field <= 13; ++field) fields >> skipped;
  uint64_t user_ticks = 0, system_ticks = 0;
  fields >> user_ticks >> system_ticks;
  for (int field = 16; field <= 21; ++field) fields >> skipped;
  fields >> status.start_time;
  if (!fields) return std::nullopt;
  status.cpu_s = static_cast<double>(user_ticks + system_ticks) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return status;
}

}  // namespace mlbench::supervise
