#include "mlbench/comm/shm/process_mark.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <optional>
#include <sstream>
#include <string>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"

namespace mlbench::comm::shm_backend {

namespace {

struct ProcessState {
  char state = '?';
  uint64_t start_time = 0;
};

// Empty where /proc does not say.
std::optional<ProcessState> state_of(int64_t pid) {
  std::string text;
  try {
    text = read_file(fmt::format("/proc/{}/stat", pid));
  } catch (const IoError&) {
    return std::nullopt;
  }
  // The program's name stands in parentheses and may hold anything; fields are counted from behind it.
  const size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end_of_name + 1));
  ProcessState result;
  fields >> result.state;
  std::string skipped;
  for (int field = 4; field <= 21; ++field) fields >> skipped;
  fields >> result.start_time;
  if (!fields) return std::nullopt;
  return result;
}

// Its inode; 0 where there is no /proc.
uint64_t own_pid_namespace() {
  struct stat info {};
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

}  // namespace

ProcessMark own_mark() {
  const int64_t pid = getpid();
  const auto state = state_of(pid);
  return {pid, state ? state->start_time : 0, own_pid_namespace()};
}

bool has_ended(const ProcessMark& mark) {
  if (mark.pid <= 0 || mark.start_time == 0 || mark.pid_namespace != own_pid_namespace()) return false;
  if (kill(static_cast<pid_t>(mark.pid), 0) != 0 && errno == ESRCH) return true;
  const auto state = state_of(mark.pid);
  if (!state) return false;
  return state->state == 'Z' || state->state == 'X' || state->start_time != mark.start_time;
}

}  // namespace mlbench::comm::shm_backend
