#include "mlbench/net/http/connections.h"

#include <sys/socket.h>

#include <algorithm>
#include <memory>

namespace mlbench::net::http {

using std::chrono::steady_clock;

Connection* Connections::add(int fd, std::chrono::milliseconds idle_time) {
  MemoryBudget::Part memory(budget_, false);
  const bool room = memory.resize(bytes_);
  auto made = std::make_unique<Connection>(fd, std::move(memory));
  made->allow(idle_time);
  const std::lock_guard lock(mutex_);
  all_.insert(made.get());
  made->unknown = unknown_.insert(unknown_.end(), made.get());
  if (!room || unknown_.size() > most_unknown_) close_an_unknown_one_but(*made);
  if (all_.size() > most_) close_an_idle_one();
  return made.release();
}

void Connections::remove(Connection* connection) {
  const std::lock_guard lock(mutex_);
  all_.erase(connection);
  if (connection->unknown) unknown_.erase(*connection->unknown);
  delete connection;
}

void Connections::close_an_unknown_one_but(const Connection& newest) {
  const auto idle = std::ranges::find_if(unknown_, [&](const Connection* one) { return !one->busy && one != &newest; });
  Connection* chosen = idle == unknown_.end() ? unknown_.front() : *idle;
  if (chosen != &newest) close(*chosen);
}

void Connections::close_an_idle_one() {
  const auto open = std::ranges::count_if(all_, [](const Connection* one) { return !one->closing; });
  if (static_cast<size_t>(open) <= most_) return;
  Connection* longest = nullptr;
  for (Connection* one : all_) {
    if (one->closing || one->busy) continue;
    if (longest == nullptr || one->deadline < longest->deadline) longest = one;
  }
  if (longest != nullptr) close(*longest);
}

void Connections::close(Connection& connection) {
  if (connection.unknown) unknown_.erase(*connection.unknown);
  connection.unknown.reset();
  connection.closing = true;
  shutdown(connection.fd, SHUT_RDWR);  // the library sees it and cleans up
}

void Connections::now_known(Connection& connection) {
  const std::lock_guard lock(mutex_);
  if (!connection.unknown) return;
  unknown_.erase(*connection.unknown);
  connection.unknown.reset();
  const size_t bytes = connection.memory.held();
  connection.memory = MemoryBudget::Part(budget_, true);
  static_cast<void>(connection.memory.resize(bytes));
}

void Connections::check() {
  const std::lock_guard lock(mutex_);
  const auto now = steady_clock::now().time_since_epoch().count();
  for (Connection* connection : all_) {
    const auto deadline = connection->deadline.load();
    // The library sees the end of the socket and cleans up; it closes a socket only after remove().
    char next;
    // Until then the library would also wait for the rest of a request whose sender has left.
    const bool left = deadline != 0 && recv(connection->fd, &next, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
    if (deadline != 0 && (now > deadline || (left && connection->left))) shutdown(connection->fd, SHUT_RDWR);
    connection->left = left;
  }
}

}  // namespace mlbench::net::http
