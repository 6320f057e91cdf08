#pragma once

// For tests: a stretch of network between clients and a server of this host, which can be cut.

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <list>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/net/sockets.h"

namespace mlbench::test {

class Relay {
 public:
  explicit Relay(int to_port) : to_port_(to_port), listener_(net::listen_on("127.0.0.1", 0)) {
    thread_ = std::thread([this] {
      while (!closing_) pass_on();
    });
  }
  ~Relay() {
    closing_ = true;
    thread_.join();
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  int port() const { return net::own_endpoint(listener_.get()).port; }
  int connections() const { return connections_; }  // how many were made so far
  int64_t bytes_to_clients() const { return bytes_to_clients_; }

  // Connections are reset; new ones are reset as soon as they come.
  void cut() { state_ = State::kCut; }
  // Nothing passes, and neither side is told.
  void hold() { state_ = State::kHeld; }
  void heal() { state_ = State::kOpen; }

 private:
  enum class State { kOpen, kHeld, kCut };
  struct Way {
    FileDescriptor client, server;
    std::array<std::string, 2> pending = {};  // bytes for the server, and bytes for the client
  };
  static constexpr int kTick_ms = 10;
  static constexpr size_t kMostPendingBytes = 1 << 20;

  static void reset(FileDescriptor& socket) {
    const linger at_once{1, 0};
    setsockopt(socket.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    socket.reset();
  }

  void pass_on() {
    const State state = state_;
    if (state == State::kHeld) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kTick_ms));
      return;
    }
    if (state == State::kCut) {
      for (Way& way : ways_) {
        reset(way.client);
        reset(way.server);
      }
      ways_.clear();
    }
    for (;;) {
      net::Accepted accepted = net::accept_from(listener_.get());
      if (!accepted.socket) break;
      if (state == State::kCut) {
        reset(accepted.socket);
        continue;
      }
      std::string reason;
      FileDescriptor server =
          net::connect_to("127.0.0.1", to_port_, std::chrono::steady_clock::now() + std::chrono::seconds(5), reason);
      if (!server) continue;
      ways_.push_back({std::move(accepted.socket), std::move(server)});
      ++connections_;
    }
    std::vector<pollfd> polled = {{listener_.get(), POLLIN, 0}};
    for (const Way& way : ways_) {
      for (const int direction : {0, 1}) {
        const auto& from = direction == 0 ? way.client : way.server;
        const auto& to = direction == 0 ? way.server : way.client;
        const std::string& pending = way.pending[static_cast<size_t>(direction)];
        if (pending.size() < kMostPendingBytes) polled.push_back({from.get(), POLLIN, 0});
        if (!pending.empty()) polled.push_back({to.get(), POLLOUT, 0});
      }
    }
    poll(polled.data(), polled.size(), kTick_ms);
    std::erase_if(ways_, [this](Way& way) {
      int64_t to_server = 0, to_client = 0;
      const bool stands = move(way.client, way.server, way.pending[0], to_server) &&
                          move(way.server, way.client, way.pending[1], to_client);
      bytes_to_clients_ += to_client;
      return !stands;
    });
  }

  // Passes bytes on. Returns false when either side has ended.
  static bool move(const FileDescriptor& from, const FileDescriptor& to, std::string& pending, int64_t& moved) {
    char buffer[65536];
    if (pending.size() < kMostPendingBytes) {
      const ssize_t count = recv(from.get(), buffer, sizeof buffer, MSG_DONTWAIT);
      if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) {
        send(to.get(), pending.data(), pending.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        return false;
      }
      if (count > 0) pending.append(buffer, static_cast<size_t>(count));
    }
    if (pending.empty()) return true;
    const ssize_t sent = send(to.get(), pending.data(), pending.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    moved = sent;
    pending.erase(0, static_cast<size_t>(sent));
    return true;
  }

  const int to_port_;
  const FileDescriptor listener_;
  std::list<Way> ways_;
  std::atomic<State> state_{State::kOpen};
  std::atomic<int> connections_{0};
  std::atomic<int64_t> bytes_to_clients_{0};
  std::atomic<bool> closing_{false};
  std::thread thread_;
};

}  // namespace mlbench::test
