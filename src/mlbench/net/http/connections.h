#pragma once

// The open connections of a server, and their deadlines. For server.cpp alone.

#include <atomic>
#include <chrono>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_set>

#include "mlbench/net/http/budget.h"

namespace mlbench::net::http {

// libmicrohttpd's own timeout only sees silence; a client that sends a byte now and then is ended by this one.
struct Connection {
  Connection(int socket, MemoryBudget::Part part) : fd(socket), memory(std::move(part)) {}
  int fd;
  MemoryBudget::Part memory;
  std::atomic<std::chrono::steady_clock::rep> deadline{0};  // 0: none
  std::atomic<bool> busy{false};                            // with a request
  bool left = false;                                        // by the watchdog alone: had ended when it looked last
  bool closing = false;                                     // to make room; under the lock of Connections
  // Its place among those of unknown senders; under the lock of Connections.
  std::optional<std::list<Connection*>::iterator> unknown;
  void allow(std::chrono::milliseconds time) {
    deadline = (std::chrono::steady_clock::now() + time).time_since_epoch().count();
  }
  void allow_any_time() { deadline = 0; }
};

// Thread-safe.
class Connections {
 public:
  // Of unknown senders at most half of `most`; each holds `bytes` of the budget.
  Connections(const MemoryBudget& budget, size_t most, size_t bytes)
      : budget_(budget),
        most_(most > kSpare * 2 ? most - most / kSpare : most - most / 2),
        most_unknown_(most / 2 > 1 ? most / 2 : 1),
        bytes_(bytes) {}

  // Of an unknown sender, until remove(). When there are too many of them, or no memory, one of them makes room: the
  // oldest that is idle, else the oldest. When hardly any connection is left, it is the one of any sender that has been
  // idle longest.
  Connection* add(int fd, std::chrono::milliseconds idle_time);
  void remove(Connection* connection);
  // The sender showed who it is.
  void now_known(Connection& connection);
  // Ends those that are behind their deadline, or whose sender has left in the middle of a request.
  void check();

 private:
  static constexpr size_t kSpare = 16;  // one of so many stays free for whoever comes next

  void close_an_unknown_one();
  void close_an_idle_one();
  void close(Connection& connection);

  const MemoryBudget& budget_;
  const size_t most_, most_unknown_, bytes_;
  std::mutex mutex_;
  std::unordered_set<Connection*> all_;
  std::list<Connection*> unknown_;  // those that are not being closed, the oldest first
};

}  // namespace mlbench::net::http
