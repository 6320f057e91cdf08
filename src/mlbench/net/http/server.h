#pragma once

// An HTTP/1.1 server with limits on everything that a client chooses. libmicrohttpd (epoll, a few threads) does the
// protocol; no type of it is seen here. Its threads only move bytes: what takes time is done by threads of its own kind
// (Lane), with a queue of limited length behind which a request is answered 503 with Retry-After at once.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "mlbench/net/http/message.h"

namespace mlbench::net::http {

struct Limits {
  size_t header_bytes = 16 << 10;                 // request line and headers together: 414 or 431
  size_t stream_bytes = 256 << 10;                // waiting for one reader of a Stream: it is cut off
  size_t memory_bytes = 128 << 20;                // of all requests in flight together (budget.h): 503
  unsigned connections = 1500;                    // at most half of unknown senders, a third with a Stream: 503
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

// Which threads handle a request: one lane that is full does not hold up another.
enum class Lane {
  kAtOnce,  // those that move the bytes: for what waits for nothing, not even a file
  kQuick,   // reads a few files or rows
  kBulk,    // large bodies, and the pieces of long answers
  kSlow,    // plans, waits for processes, reads whole runs
};

// What is decided by the headers alone.
struct Admission {
  std::optional<Response> refusal = {};  // sent at once; the body is never read (refused token, unknown path)
  bool known = false;           // the sender showed who it is: from now on its connection counts as that of a known one
  size_t body_bytes = 4 << 10;  // as sent: 413
  size_t unpacked_bytes = 0;    // of a gzip body, and not more than 100 times of what was sent: 413; 0: 415
  Lane lane = Lane::kQuick;
};

// What a server serves. Called by several threads at once; an exception becomes a 500. What the server itself refuses
// is JSON: {"status", "message"}.
class Service {
 public:
  virtual ~Service() = default;
  // The headers are there, the body is not. Waits for nothing.
  virtual Admission begin(const Request& request) = 0;
  // The whole request, on a thread of its lane.
  virtual Response handle(const Request& request) = 0;
};

class Server {
 public:
  // Listens on return. UserError when the address is in use, is not one of this machine, or the certificate is
  // unusable.
  Server(const ServerOptions& options, Service& service);
  ~Server();  // stop()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  uint16_t port() const;
  // Takes no more requests, ends open streams, waits for running handlers.
  void stop();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mlbench::net::http
