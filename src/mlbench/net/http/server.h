#pragma once

// An HTTP/1.1 server with a limit on everything that a client chooses. libmicrohttpd (epoll, a few threads) handles the
// protocol; none of its types is visible here. Its threads only move bytes. Work that takes time is done by the threads
// of a lane (Lane), each with a queue of limited length; when the queue is full, a request is answered 503 with
// Retry-After at once.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "mlbench/net/http/message.h"

namespace mlbench::net::http {

struct Limits {
  size_t header_bytes = 16 << 10;                 // of request line and headers together; beyond it: 414 or 431
  size_t stream_bytes = 256 << 10;                // of what waits for one reader of a Stream, who is cut off beyond it
  size_t memory_bytes = 128 << 20;                // of all requests in flight together (budget.h); beyond it: 503
  unsigned connections = 1500;                    // at most half of unknown senders, a third with a Stream; else 503
  std::chrono::milliseconds idle_time{75'000};    // without a byte, or waiting for a request
  std::chrono::milliseconds header_time{10'000};  // from the request line to the last header
  std::chrono::milliseconds body_time{60'000};    // from the last header to the end of the body
};

struct ServerOptions {
  std::string host = "127.0.0.1";  // an address, or a name of this machine
  uint16_t port = 0;               // 0: any free one
  unsigned threads = 4;
  Limits limits;
  std::string tls_certificate, tls_key;  // PEM texts; both empty: no TLS
};

// Which threads handle a request. A full lane does not hold up another.
enum class Lane {
  kAtOnce,  // the threads that move bytes: for requests that wait for nothing, not even for a file
  kQuick,   // for requests that read a few files or rows
  kBulk,    // for large bodies, and the pieces of long answers
  kSlow,    // for requests that plan, wait for processes, or read whole runs
};

// What is decided from the headers alone.
struct Admission {
  std::optional<Response> refusal = {};  // sent at once, and the body is never read (refused token, unknown path)
  bool known = false;           // the sender showed who it is: from now on its connection counts as a known sender's
  size_t body_bytes = 4 << 10;  // the most of a body as sent; beyond it: 413
  // The most of a gzip body when unpacked, which is also limited to 100 times its packed size; beyond it: 413. 0: a
  // gzip body is answered 415.
  size_t unpacked_bytes = 0;
  Lane lane = Lane::kQuick;
};

// What a server serves. Several threads call it at once. An exception becomes a 500. What the server itself refuses has
// a body of JSON: {"status", "message"}.
class Service {
 public:
  virtual ~Service() = default;
  // Decides when the headers have come and the body has not. begin() must not wait for anything.
  virtual Admission begin(const Request& request) = 0;
  // Answers the whole request, on a thread of its lane.
  virtual Response handle(const Request& request) = 0;
};

class Server {
 public:
  // The server listens on return. Throws UserError when the address is in use or is not this machine's, or when the
  // certificate is unusable.
  Server(const ServerOptions& options, Service& service);
  ~Server();  // stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;
  // Takes no more requests, ends open streams, and waits for running handlers.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mlbench::net::http
