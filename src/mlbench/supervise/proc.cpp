#include "mlbench/supervise/proc.h"

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
  for (int field = 4; field <= 21; ++field) fields >> skipped;
  fields >> status.start_time;
  if (!fields) return std::nullopt;
  return status;
}

}  // namespace mlbench::supervise
