#pragma once

// For tests: a stranger on this host. As long as the object lives, it connects to every port that the processes of a
// test listen at, again and again. The stranger says nothing, sends garbage, or sends a header of Gloo that would have
// Gloo write outside its buffers.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "mlbench/base/files.h"

namespace mlbench::test {

// The ports at which the calling process and all processes below it listen.
inline std::set<int> listening_ports() {
  namespace fs = std::filesystem;
  std::error_code gone;
  std::map<std::string, int> ports;  // by inode
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      std::istringstream words(line);
      std::string slot, local, remote, state, queues, timer, retransmit, user, timeout, inode;
      words >> slot >> local >> remote >> state >> queues >> timer >> retransmit >> user >> timeout >> inode;
      if (state == "0A") ports[inode] = std::stoi(local.substr(local.rfind(':') + 1), nullptr, 16);
    }
  }
  std::map<int, int> parents;
  for (const auto& entry : fs::directory_iterator("/proc", gone)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    std::ifstream file(entry.path() / "stat");
    std::string text;
    std::getline(file, text);
    int parent = 0;
    char state = 0;
    if (text.rfind(')') != std::string::npos) std::istringstream(text.substr(text.rfind(')') + 1)) >> state >> parent;
    parents[std::stoi(name)] = parent;
  }
  std::set<int> found;
  for (const auto& each : parents) {
    int process = each.first;
    while (process > 1 && process != getpid()) process = parents.count(process) == 0 ? 0 : parents[process];
    if (process != getpid()) continue;
    for (fs::directory_iterator entry("/proc/" + std::to_string(each.first) + "/fd", gone), end; !gone && entry != end;
         entry.increment(gone)) {
      std::error_code closed;
      const std::string target = fs::read_symlink(entry->path(), closed);
      if (target.rfind("socket:[", 0) != 0) continue;
      const auto place = ports.find(target.substr(8, target.size() - 9));
      if (place != ports.end()) found.insert(place->second);
    }
  }
  return found;
}

class Stranger {
 public:
  ~Stranger() { thread_.request_stop(); }
  int connections() const { return connections_; }

 private:
  static constexpr size_t kMostOpen = 200;

  void visit(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const int port : listening_ports()) {
        for (int i = 0; i < 3; ++i) knock(port);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void knock(int port) {
    FileDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    static_cast<void>(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address));
    // A header of Gloo: nbytes, opcode, slot, offset, length, roffset.
    const uint64_t header[] = {48 + 64, 0, 0, 0, 64, ~uint64_t{0} - 63};
    const std::string garbage(100, '\xff');
    const int kind = connections_++ % 3;
    if (kind == 1) static_cast<void>(send(socket.get(), header, sizeof header, MSG_NOSIGNAL));
    if (kind == 2) static_cast<void>(send(socket.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL));
    open_.push_back(std::move(socket));
    if (open_.size() > kMostOpen) open_.pop_front();
  }

  std::atomic<int> connections_{0};
  std::deque<FileDescriptor> open_;
  std::jthread thread_{[this](const std::stop_token& stop) { visit(stop); }};
};

}  // namespace mlbench::test
