#pragma once

// What server and clients of the key-value store share: messages and sockets.
//
// A message is a 4-byte big-endian length and a CBOR object of that length:
//   client: {"op": "hello", "id", "run", "secret", "rank", "size", "pid", "host"}    the first one
//           {"op": "set", "id", "key", "value": bytes}
//           {"op": "get", "id", "key", "timeout_ms"}
//           {"op": "report", "id", "message": {...}}
//           {"op": "heartbeat", "status": {...}}                                     no reply
//   server: {"id"} or {"id", "value": bytes} or {"id", "error": text, "timeout": bool}

#include <netdb.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"

namespace mlbench::net::wire {

inline constexpr size_t kMaxMessageBytes = size_t{64} << 20;
inline constexpr size_t kMaxHelloBytes = 4096;

// What comes in is no message of this protocol: the connection is of no use any more.
class ProtocolError : public CommError {
 public:
  using CommError::CommError;
};

// Length and body. CommError when the message is too large.
std::string encode(const Json& message);
// An object nested no deeper than kDeepestNesting, of at most 4096 values, all texts UTF-8; else ProtocolError.
Json decode(std::string_view body);

Json to_bytes(std::string_view text);
std::string from_bytes(const Json& value);

// Member of a message. ProtocolError when it is missing or of another type.
int64_t integer_in(const Json& message, const char* name);
std::string text_in(const Json& message, const char* name);
std::string bytes_in(const Json& message, const char* name);
Json object_in(const Json& message, const char* name);

// Cuts a stream into messages. Memory grows with what arrived, never with what a length announces.
class FrameReader {
 public:
  void append(std::string_view data) { buffer_.append(data); }
  // Empty while the next message is incomplete. ProtocolError when it is longer than `limit`, or malformed.
  std::optional<Json> next(size_t limit);

 private:
  std::string buffer_;
  size_t first_ = 0;  // of the next message
};

struct Addresses {
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> list{nullptr, freeaddrinfo};
  std::string error;  // why the list is empty
};
Addresses resolve(const std::string& host, int port, bool to_listen);

// TCP_NODELAY, and a peer that went away without a word is noticed.
void set_options(int socket);

// "127.0.0.1:4711", "[::1]:4711".
std::string endpoint_text(const std::string& host, int port);
// "30 s", "0.25 s".
std::string duration_text(std::chrono::milliseconds duration);

// No signal handler of the program runs on the calling thread from now on.
void block_signals_on_this_thread();

// now() + timeout, without overflow.
std::chrono::steady_clock::time_point deadline_after(std::chrono::milliseconds timeout);
// Until the deadline, for poll(): at least 0.
int poll_timeout(std::chrono::steady_clock::time_point deadline);

}  // namespace mlbench::net::wire
