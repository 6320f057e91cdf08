#include "mlbench/guard/descendants.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "mlbench/base/files.h"

namespace mlbench::guard {
namespace {

using std::chrono::milliseconds;

struct Process {
  pid_t pid = 0, parent = 0, group = 0, session = 0;
  char state = '?';
};

// Of /proc/PID/stat. False: it is gone.
bool read_process(const char* pid, Process& process) {
  const std::string path = std::string("/proc/") + pid + "/stat";
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return false;
  char text[1024];
  const ssize_t count = read(fd.get(), text, sizeof text - 1);
  if (count <= 0) return false;
  text[count] = 0;
  // The program's name stands in parentheses and may hold anything.
  const char* behind_name = std::strrchr(text, ')');
  return behind_name != nullptr && std::sscanf(behind_name + 1, " %c %d %d %d", &process.state, &process.parent,
                                               &process.group, &process.session) == 4;
}

std::vector<Process> all_processes() {
  std::vector<Process> found;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return found;
  while (const dirent* entry = readdir(folder)) {
    const char* end = entry->d_name + std::strlen(entry->d_name);
    Process process;
    const auto [last, error] = std::from_chars(entry->d_name, end, process.pid);
    if (error == std::errc() && last == end && read_process(entry->d_name, process)) found.push_back(process);
  }
  closedir(folder);
  return found;
}

std::vector<Process> below(pid_t root, std::span<const pid_t> kept) {
  std::vector<Process> all = all_processes();
  const auto by_parent = [](const Process& a, const Process& b) { return a.parent < b.parent; };
  std::sort(all.begin(), all.end(), by_parent);
  std::vector<Process> found;
  std::vector<pid_t> parents = {root};
  for (size_t i = 0; i < parents.size(); ++i) {
    Process key;
    key.parent = parents[i];
    const auto [begin, end] = std::equal_range(all.begin(), all.end(), key, by_parent);
    for (auto child = begin; child != end; ++child) {
      if (std::find(kept.begin(), kept.end(), child->pid) != kept.end()) continue;
      found.push_back(*child);
      parents.push_back(child->pid);
    }
  }
  return found;
}

}  // namespace

void become_subreaper() { prctl(PR_SET_CHILD_SUBREAPER, 1); }

namespace {

// Where it is allowed, so that who forks on and on is not faster.
class Hurry {
 public:
  Hurry() : before_(getpriority(PRIO_PROCESS, 0)) { setpriority(PRIO_PROCESS, 0, -20); }
  ~Hurry() { setpriority(PRIO_PROCESS, 0, before_); }
  Hurry(const Hurry&) = delete;
  Hurry& operator=(const Hurry&) = delete;

 private:
  int before_;
};

}  // namespace

bool end_descendants(std::span<const pid_t> kept, milliseconds patience) {
  const Hurry hurry;
  const pid_t self = getpid(), own_session = getsid(0);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    bool alive = false;
    for (const Process& process : below(self, kept)) {
      if (process.state == 'Z' || process.state == 'X') {
        if (process.parent == self) waitpid(process.pid, nullptr, WNOHANG);
        continue;
      }
      alive = true;
      // A whole group at once: none of it can fork out of that. A rank's session is its own, so a group of another
      // session than ours holds nobody else.
      if (process.session != own_session) kill(-process.group, SIGKILL);
      kill(process.pid, SIGKILL);
    }
    if (!alive) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
}

bool wait_for_end(pid_t pid, milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    Process process;
    if (!read_process(std::to_string(pid).c_str(), process) || process.state == 'Z' || process.state == 'X')
      return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
}

}  // namespace mlbench::guard
