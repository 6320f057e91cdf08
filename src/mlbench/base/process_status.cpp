#include "mlbench/base/process_status.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "mlbench/base/files.h"

namespace mlbench {

std::optional<ProcessStatus> parse_process_status(const std::string& text) {
  // The program's name stands in parentheses and may hold anything.
  const size_t end_of_name = text.rfind(')');
  if (end_of_name == std::string::npos) return std::nullopt;
  ProcessStatus status;
  unsigned long long start_time = 0;
  long long user = 0, system = 0, waited_user = 0, waited_system = 0, pages = 0;
  constexpr const char* kFields =
      " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %lld %lld %lld %lld %*d %*d %*d %*d %llu %*u %lld";
  const int read = std::sscanf(text.c_str() + end_of_name + 1, kFields, &status.state, &status.parent, &status.group,
                               &status.session, &user, &system, &waited_user, &waited_system, &start_time, &pages);
  if (read != 10) return std::nullopt;
  status.start_time = start_time;
  status.processor_ticks = user + system;
  status.waited_ticks = waited_user + waited_system;
  status.pages = pages;
  return status;
}

uint64_t own_pid_namespace() {
  struct stat info {};
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

// One call reads the whole file, since the kernel makes the text anew for each. A process may be gone.
std::optional<ProcessStatus> process_status(pid_t pid) {
  const std::string path = "/proc/" + std::to_string(pid) + "/stat";
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return std::nullopt;
  std::array<char, 4096> text{};
  const ssize_t count = read(fd.get(), text.data(), text.size());
  if (count <= 0) return std::nullopt;
  return parse_process_status({text.data(), static_cast<size_t>(count)});
}

}  // namespace mlbench
