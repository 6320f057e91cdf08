#pragma once

// TCP sockets and deadlines, shared by everything here that listens and connects.

#include <netdb.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "mlbench/base/files.h"

namespace mlbench::net {

// All sockets made here close on exec and never block.

// Listens on an address or a network interface of this host; port 0: any free one. IoError naming it.
FileDescriptor listen_on(const std::string& address_or_interface, int port);

struct Accepted {
  FileDescriptor socket;  // none: nobody waits any more
  std::string peer;       // "127.0.0.1:4711"
};
// The next connection that waits. IoError when the system gives none (no descriptors left).
Accepted accept_from(int listener);

// Begins to connect to an address (the first that the name stands for). Not connected yet when it returns: wait until
// the socket is writable, then ask connect_error(). None, with the reason, when that fails at once. With buffers of so
// many bytes (set_buffers), which count from the first packet on. `error`: the reason's errno, 0 where it has none.
FileDescriptor begin_connect(const std::string& host, int port, std::string& reason, int64_t buffer_bytes = 0,
                             int* error = nullptr);
// Errno of a connection that became writable, 0 when it stands.
int connect_error(int socket);
// All addresses of the host, one after the other, waiting for each. None, with the reason, when none answers.
FileDescriptor connect_to(const std::string& host, int port, std::chrono::steady_clock::time_point deadline,
                          std::string& reason, int* error = nullptr);

// Of one attempt after the other to connect to the same place. Where this host has no way there (no route, no network,
// no address of its own), nobody else will mend it; but an interface may be about to come up.
class NoWay {
 public:
  // With the errno of an attempt that failed: whether all for at least 10 s failed for that.
  bool lasts(int error);

 private:
  std::optional<std::chrono::steady_clock::time_point> since_;
};

// Returns when the host has an address, or after `patience`: names of hosts that start together may take a moment. Who
// uses it then, says what is wrong.
void wait_for_address(const std::string& host, std::chrono::milliseconds patience);

// The address of this host, as a number, from which a connection to `host` would come. Nothing is sent. IoError naming
// a host that has no address, or that no route leads to.
std::string address_towards(const std::string& host);

// Small messages are not held back, and a peer that went away without a word is noticed after about 30 s.
void set_options(int socket);

// Send and receive buffer, as far as the system grants them; 0: its choice. Before the socket is connected: how much a
// peer may send ahead is agreed on then.
void set_buffers(int socket, int64_t bytes);

struct Endpoint {
  std::string host;
  int port = 0;
};
// Where a socket listens, or its own end of a connection.
Endpoint own_endpoint(int socket);
// "127.0.0.1:4711", "[::1]:4711".
std::string endpoint_text(const std::string& host, int port);
// Its inverse; empty when it is none.
std::optional<Endpoint> parse_endpoint(const std::string& text);

// Waits for `events` (poll). False when the deadline passes. CommError if poll fails.
bool wait_for(int socket, short events, std::chrono::steady_clock::time_point deadline);

// "30 s", "0.25 s".
std::string duration_text(std::chrono::milliseconds duration);

// No signal handler of the program runs on the calling thread from now on.
void block_signals_on_this_thread();

// Until the deadline, for poll(): at least 0.
int poll_timeout(std::chrono::steady_clock::time_point deadline);

}  // namespace mlbench::net
