#pragma once

// The open connections of a server, and their deadlines. Only server.cpp includes this header.

#include <atomic>
#include <chrono>
#include <list>
#include <mutex>
#include <optional>
#include <unordered_set>

#include "mlbench/net/http/budget.h"

namespace mlbench::net::http {

// One connection. libmicrohttpd's timeout sees silence only; this deadline ends a client that sends a byte now and
// then.
struct Connection {
  Connection(int socket, MemoryBudget::Part part) : fd(socket), memory(std::move(part)) {}
  int fd;
  MemoryBudget::Part memory;
  std::atomic<std::chrono::steady_clock::rep> deadline{0};  // 0: none
  std::atomic<bool> busy{false};                            // a request is under way
  bool left = false;                                        // for the watchdog alone: had left when it looked last
  bool closing = false;                                     // closed to make room; under the lock of Connections
  // The connection's place in the list of unknown senders; guarded by the lock of Connections.
  std::optional<std::list<Connection*>::iterator> unknown;
  void allow(std::chrono::milliseconds time) {
    deadline = (std::chrono::steady_clock::now() + time).time_since_epoch().count();
  }
  void allow_any_time() { deadline = 0; }
};

// All connections of a server. Thread-safe.
class Connections {
 public:
  // At most half of `most` connections are of unknown senders. Each connection holds `bytes` of the budget.
  Connections(const MemoryBudget& budget, size_t most, size_t bytes)
      : budget_(budget),
        most_(most > kSpare * 2 ? most - most / kSpare : most - most / 2),
        most_unknown_(most / 2 > 1 ? most / 2 : 1),
        bytes_(bytes) {}

  // Adds the connection of a sender who is unknown so far; it stays until remove(). When unknown senders have too many
  // connections, or there is no memory, another one of theirs makes room: the oldest idle one, or the oldest. The new
  // one stays, since its sender may be known as soon as its request is read. When hardly any connection is left, the
  // one that has been idle longest makes room, whoever its sender is.
  Connection* add(int fd, std::chrono::milliseconds idle_time);
  void remove(Connection* connection);
  // Notes that the connection's sender showed who it is.
  void now_known(Connection& connection);
  // Ends connections whose deadline has passed, or whose sender has left in the middle of a request.
  void check();

 private:
  static constexpr size_t kSpare = 16;  // one of so many connections stays free for whoever comes next

  void close_an_unknown_one_but(const Connection& newest);
  void close_an_idle_one();
  void close(Connection& connection);

  const MemoryBudget& budget_;
  const size_t most_, most_unknown_, bytes_;
  std::mutex mutex_;
  std::unordered_set<Connection*> all_;
  std::list<Connection*> unknown_;  // the connections that are not being closed, the oldest first
};

}  // namespace mlbench::net::http
