#include "mlbench/net/sockets.h"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <thread>

#include "mlbench/base/errors.h"
#include "mlbench/base/peer_words.h"
#include "mlbench/base/to_number.h"

namespace mlbench::net {

namespace {

struct Addresses {
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> list{nullptr, freeaddrinfo};
  std::string error;  // why the list is empty
};

Addresses resolve(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* list = nullptr;
  const int result = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  Addresses addresses;
  if (result == 0) {
    addresses.list.reset(list);
  } else {
    addresses.error = result == EAI_SYSTEM ? errno_text(errno) : gai_strerror(result);
  }
  return addresses;
}

Endpoint endpoint_of(const sockaddr* address, socklen_t size) {
  char host[NI_MAXHOST] = "?";
  char port[NI_MAXSERV] = "0";
  getnameinfo(address, size, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  return {host, std::atoi(port)};
}

// The address of a network interface, IPv4 before IPv6. A text that is no interface is returned as it is.
std::string address_of(const std::string& address_or_interface) {
  if (if_nametoindex(address_or_interface.c_str()) == 0) return address_or_interface;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) throw IoError("cannot list the network interfaces: " + errno_text(errno));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owned(list, freeifaddrs);
  for (const int family : {AF_INET, AF_INET6}) {
    for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
      if (entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != family) continue;
      if (address_or_interface != entry->ifa_name) continue;
      const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      return endpoint_of(entry->ifa_addr, size).host;
    }
  }
  throw IoError("network interface " + address_or_interface + " has no address");
}

// Whether the kernel has connected a socket to itself, which may happen when it looks for a port for it.
bool connected_to_itself(int socket) {
  sockaddr_storage own{};
  sockaddr_storage peer{};
  socklen_t own_size = sizeof own;
  socklen_t peer_size = sizeof peer;
  return getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         getpeername(socket, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 && own_size == peer_size &&
         std::memcmp(&own, &peer, own_size) == 0;
}

FileDescriptor begin_connect(const addrinfo& entry, std::string& reason, int64_t buffer_bytes, int* error) {
  FileDescriptor socket(::socket(entry.ai_family, entry.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket) set_buffers(socket.get(), buffer_bytes);
  if (socket && (connect(socket.get(), entry.ai_addr, entry.ai_addrlen) == 0 || errno == EINPROGRESS)) return socket;
  if (error != nullptr) *error = errno;
  reason = errno_text(errno);
  return {};
}

// These errors are about the way to a host, not about the host.
constexpr int kNoWay[] = {ENETUNREACH, EHOSTUNREACH, ENETDOWN, EADDRNOTAVAIL, EAFNOSUPPORT, EACCES, EPERM};
constexpr std::chrono::seconds kNoWayPatience{10};

}  // namespace

bool NoWay::lasts(int error, std::chrono::steady_clock::time_point now) {
  if (std::ranges::find(kNoWay, error) == std::end(kNoWay)) {
    since_.reset();
    return false;
  }
  if (!since_) since_ = now;
  return now - *since_ >= kNoWayPatience;
}

FileDescriptor listen_on(const std::string& address_or_interface, int port) {
  const auto addresses = resolve(address_of(address_or_interface), port, AI_PASSIVE);
  std::string reason = addresses.error;
  for (const addrinfo* entry = addresses.list.get(); entry != nullptr; entry = entry->ai_next) {
    FileDescriptor socket(::socket(entry->ai_family, entry->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    if (socket && setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(socket.get(), entry->ai_addr, entry->ai_addrlen) == 0 && listen(socket.get(), SOMAXCONN) == 0) {
      return socket;
    }
    reason = errno_text(errno);
  }
  throw IoError("cannot listen on " + endpoint_text(address_or_interface, port) + ": " + reason);
}

std::vector<std::string> interface_names() {
  const std::unique_ptr<struct if_nameindex, void (*)(struct if_nameindex*)> list(if_nameindex(), if_freenameindex);
  std::vector<std::string> names;
  if (!list) return names;
  for (const struct if_nameindex* each = list.get(); each->if_index != 0; ++each) names.emplace_back(each->if_name);
  return names;
}

void wait_for_address(const std::string& host, std::chrono::milliseconds patience) {
  constexpr std::chrono::milliseconds kPause{200};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!resolve(host, 0, 0).list && std::chrono::steady_clock::now() + kPause <= deadline) {
    std::this_thread::sleep_for(kPause);
  }
}

Accepted accept_from(int listener) {
  for (;;) {
    sockaddr_storage address{};
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    FileDescriptor socket(accept4(listener, generic, &size, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      const Endpoint peer = endpoint_of(generic, size);
      return {std::move(socket), endpoint_text(peer.host, peer.port)};
    }
    if (errno == EAGAIN) return {};
    if (errno != EINTR && errno != ECONNABORTED) throw IoError("cannot accept a connection: " + errno_text(errno));
  }
}

FileDescriptor begin_connect(const std::string& host, int port, std::string& reason, int64_t buffer_bytes, int* error) {
  const auto addresses = resolve(host, port, 0);
  reason = addresses.error;
  if (error != nullptr) *error = 0;
  return addresses.list ? begin_connect(*addresses.list, reason, buffer_bytes, error) : FileDescriptor();
}

void set_buffers(int socket, int64_t bytes) {
  if (bytes == 0) return;
  const int size = static_cast<int>(std::min<int64_t>(bytes, std::numeric_limits<int>::max()));
  setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  setsockopt(socket, SOL_SOCKET, SO_RCVBUF, &size, sizeof size);
}

int connect_error(int socket) {
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error == 0 && connected_to_itself(socket) ? ECONNREFUSED : error;
}

FileDescriptor connect_to(const std::string& host, int port, std::chrono::steady_clock::time_point deadline,
                          std::string& reason, int* error) {
  const auto addresses = resolve(host, port, 0);
  reason = addresses.error;
  int ignored = 0;
  int& number = error != nullptr ? *error : ignored;
  number = 0;
  for (const addrinfo* entry = addresses.list.get(); entry != nullptr; entry = entry->ai_next) {
    FileDescriptor socket = begin_connect(*entry, reason, 0, &number);
    if (!socket) continue;
    number = 0;
    if (!wait_for(socket.get(), POLLOUT, deadline)) {
      reason = "no answer";
      continue;
    }
    number = connect_error(socket.get());
    if (number != 0) {
      reason = errno_text(number);
      continue;
    }
    set_options(socket.get());
    return socket;
  }
  return {};
}

std::string address_towards(const std::string& host) {
  constexpr int kAnyPort = 9;
  const auto addresses = resolve(host, kAnyPort, 0);
  std::string reason = addresses.error;
  for (const addrinfo* entry = addresses.list.get(); entry != nullptr; entry = entry->ai_next) {
    const FileDescriptor socket(::socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (socket && connect(socket.get(), entry->ai_addr, entry->ai_addrlen) == 0) return own_endpoint(socket.get()).host;
    reason = errno_text(errno);
  }
  throw IoError(fmt::format("no way from here to host {}: {}", host, reason));
}

void set_options(int socket) {
  const auto set = [socket](int level, int option, int value) {
    setsockopt(socket, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
  set(IPPROTO_TCP, TCP_USER_TIMEOUT, 30000);
}

Endpoint own_endpoint(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (getsockname(socket, generic, &size) != 0) throw IoError("cannot inspect a socket: " + errno_text(errno));
  return endpoint_of(generic, size);
}

std::string endpoint_text(const std::string& host, int port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

std::optional<Endpoint> parse_endpoint(const std::string& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  Endpoint endpoint{text.substr(0, colon), to_number<int>(std::string_view(text).substr(colon + 1)).value_or(0)};
  if (endpoint.host.starts_with('[') && endpoint.host.ends_with(']')) {
    endpoint.host = endpoint.host.substr(1, endpoint.host.size() - 2);
  }
  const bool valid = endpoint.port >= 1 && endpoint.port <= 65535;
  return valid && fits(peer_words::kAddress, endpoint.host) ? std::optional(endpoint) : std::nullopt;
}

bool wait_for(int socket, short events, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    pollfd polled{socket, events, 0};
    const int count = poll(&polled, 1, poll_timeout(deadline));
    if (count > 0) return true;
    if (count < 0 && errno != EINTR) throw CommError("poll: " + errno_text(errno));
    if (count == 0 && std::chrono::steady_clock::now() >= deadline) return false;
  }
}

std::string duration_text(std::chrono::milliseconds duration) {
  return fmt::format("{:g} s", std::chrono::duration<double>(duration).count());
}

void block_signals_on_this_thread() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

int poll_timeout(std::chrono::steady_clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  constexpr std::chrono::milliseconds kLongest = std::chrono::hours(1);
  return static_cast<int>(std::clamp(left, std::chrono::milliseconds(0), kLongest).count());
}

}  // namespace mlbench::net
