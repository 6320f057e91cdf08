#pragma once

// TCP sockets and deadlines, for all of mlbench that listens and connects.

#include <netdb.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/files.h"

namespace mlbench::net {

// Sockets made here close on exec and never block.

// Listens on an address or a network interface of this host; port 0 means any free port. Throws IoError naming it.
FileDescriptor listen_on(const std::string& address_or_interface, int port);

// The names of this host's network interfaces.
std::vector<std::string> interface_names();

struct Accepted {
  FileDescriptor socket;  // none: no connection waits any more
  std::string peer;       // "127.0.0.1:4711"
};
// The next connection that waits. Throws IoError when the system gives none (no descriptors left).
Accepted accept_from(int listener);

// Begins to connect to the first address of `host`. The socket is not connected yet: wait until it is writable, then
// call connect_error(). Returns none, with the reason, when connecting fails at once. The buffers have `buffer_bytes`
// (as set_buffers() does), which counts from the first packet on. `error` receives the errno of the reason, 0 where
// there is none.
FileDescriptor begin_connect(const std::string& host, int port, std::string& reason, int64_t buffer_bytes = 0,
                             int* error = nullptr);
// The errno of a connection that became writable; 0 when the connection stands.
int connect_error(int socket);
// Tries all addresses of the host, one by one, waiting for each. Returns none, with the reason, when none answers.
FileDescriptor connect_to(const std::string& host, int port, std::chrono::steady_clock::time_point deadline,
                          std::string& reason, int* error = nullptr);

// Watches repeated attempts to connect to the same place. Where this host has no route there (no route, no network, no
// address of its own), waiting does not help, except that an interface may be about to come up.
class NoWay {
 public:
  // Takes the errno of an attempt that failed `now`. Returns whether all attempts for at least 10 s failed for want of
  // a route.
  bool lasts(int error, std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now());

 private:
  std::optional<std::chrono::steady_clock::time_point> since_;
};

// Returns when the host has an address, or after `patience`: the names of hosts that start together may take a moment.
// A later use of the name reports what is wrong.
void wait_for_address(const std::string& host, std::chrono::milliseconds patience);

// This host's address, as a number, from which a connection to `host` would come. Nothing is sent. Throws IoError
// naming a host that has no address, or to which no route leads.
std::string address_towards(const std::string& host);

// Small messages are not held back, and after about 30 s it is noticed that a peer went away without a word.
void set_options(int socket);

// Sets the send and the receive buffer to `bytes`, as far as the system grants them; 0 keeps the system's choice. Must
// be called before the socket is connected, when it is agreed how much a peer may send ahead.
void set_buffers(int socket, int64_t bytes);

struct Endpoint {
  std::string host;
  int port = 0;
};
// The address on which a socket listens, or its own end of a connection.
Endpoint own_endpoint(int socket);
// The address as "127.0.0.1:4711" or "[::1]:4711".
std::string endpoint_text(const std::string& host, int port);
// The inverse of endpoint_text(); empty when `text` is no endpoint.
std::optional<Endpoint> parse_endpoint(const std::string& text);

// Waits for `events` by poll(). Returns false when the deadline passes; throws CommError if poll() fails.
bool wait_for(int socket, short events, std::chrono::steady_clock::time_point deadline);

// The duration as "30 s" or "0.25 s".
std::string duration_text(std::chrono::milliseconds duration);

// From now on, no signal handler of the program runs on the calling thread.
void block_signals_on_this_thread();

// The milliseconds until the deadline for poll(), at least 0.
int poll_timeout(std::chrono::steady_clock::time_point deadline);

}  // namespace mlbench::net
