#include "mlbench/guard/descendants.h"

#include <dirent.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>
#include <vector>

#include "mlbench/base/process_status.h"
#include "mlbench/base/to_number.h"

namespace mlbench::guard {
namespace {

using std::chrono::milliseconds;

struct Process {
  pid_t pid = 0;
  ProcessStatus status = {};
};

std::vector<Process> all_processes() {
  std::vector<Process> found;
  DIR* folder = opendir("/proc");
  if (folder == nullptr) return found;
  while (const dirent* entry = readdir(folder)) {
    const auto pid = to_number<pid_t>(entry->d_name);
    if (!pid) continue;
    if (const auto status = process_status(*pid)) found.push_back({*pid, *status});
  }
  closedir(folder);
  return found;
}

std::vector<Process> below(pid_t root, std::span<const pid_t> kept) {
  std::vector<Process> all = all_processes();
  const auto by_parent = [](const Process& a, const Process& b) { return a.status.parent < b.status.parent; };
  std::sort(all.begin(), all.end(), by_parent);
  std::vector<Process> found;
  std::vector<pid_t> parents = {root};
  for (size_t i = 0; i < parents.size(); ++i) {
    Process key;
    key.status.parent = parents[i];
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

// Raises the priority of this process, where that is allowed: a process that forks on and on must not be faster.
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

namespace {

// Hands what is alive below this process, except the children `kept` and what is below these, to `meet`, again and
// again until nothing is. Returns whether that was reached within `patience`.
template <typename Meet>
bool until_none_is_below(std::span<const pid_t> kept, milliseconds patience, milliseconds pause, Meet meet) {
  const pid_t self = getpid();
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    bool alive = false;
    for (const Process& process : below(self, kept)) {
      if (process.status.ended()) {
        if (process.status.parent == self) waitpid(process.pid, nullptr, WNOHANG);
        continue;
      }
      alive = true;
      meet(process);
    }
    if (!alive) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace

bool end_descendants(std::span<const pid_t> kept, milliseconds patience) {
  const Hurry hurry;
  const pid_t own_session = getsid(0);
  return until_none_is_below(kept, patience, milliseconds(1), [&](const Process& process) {
    // A whole group is killed at once: none of its processes can fork out of that. A rank's session is its own, so a
    // group of another session than this process's holds nobody else.
    if (process.status.session != own_session) kill(-process.status.group, SIGKILL);
    kill(process.pid, SIGKILL);
  });
}

bool wait_for_descendants(milliseconds patience) {
  return until_none_is_below({}, patience, milliseconds(10), [](const Process&) {});
}

bool wait_for_end(pid_t pid, milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const auto status = process_status(pid);
    if (!status || status->ended()) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
}

}  // namespace mlbench::guard
