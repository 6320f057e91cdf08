#include "tests/support/connections.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

namespace mlbench::test {

namespace {

namespace fs = std::filesystem;

struct Endpoints {  // as /proc/net/tcp writes them, e.g. "0100007F:1F90"
  std::string local, remote;
};

// Established connections by the inode of their socket.
std::map<std::string, Endpoints> connections() {
  std::map<std::string, Endpoints> found;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string slot, local, remote, state, queues, timer, retransmit, user, timeout, inode;
      words >> slot >> local >> remote >> state >> queues >> timer >> retransmit >> user >> timeout >> inode;
      if (state == "01") found[inode] = {local, remote};
    }
  }
  return found;
}

// File descriptors of a process's connections.
std::map<int, Endpoints> connections_of(pid_t pid, const std::map<std::string, Endpoints>& all) {
  std::map<int, Endpoints> found;
  for (const auto& entry : fs::directory_iterator("/proc/" + std::to_string(pid) + "/fd")) {
    std::error_code gone;
    const std::string target = fs::read_symlink(entry.path(), gone);
    if (target.rfind("socket:[", 0) != 0) continue;
    const auto place = all.find(target.substr(8, target.size() - 9));
    if (place != all.end()) found[std::stoi(entry.path().filename())] = place->second;
  }
  return found;
}

}  // namespace

int cut_connections(pid_t one, pid_t other) {
  const auto all = connections();
  std::set<std::string> ends_of_other;
  for (const auto& [fd, ends] : connections_of(other, all)) ends_of_other.insert(ends.local);
  const int process = static_cast<int>(syscall(SYS_pidfd_open, one, 0));
  if (process < 0) return -1;
  int cut = 0;
  for (const auto& [fd, ends] : connections_of(one, all)) {
    if (ends_of_other.count(ends.remote) == 0) continue;
    const int copy = static_cast<int>(syscall(SYS_pidfd_getfd, process, fd, 0));
    if (copy < 0) {
      cut = -1;
      break;
    }
    if (shutdown(copy, SHUT_RDWR) == 0) ++cut;
    close(copy);
  }
  close(process);
  return cut;
}

}  // namespace mlbench::test
