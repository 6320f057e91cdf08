#pragma once

// An HTTP/1.1 server with limits on everything that a client chooses. libmicrohttpd (epoll, a few threads) does the
// protocol; no type of it is seen here.

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "mlbench/net/http/message.h"

namespace mlbench::net::http {

struct Limits {
  size_t header_bytes = 16 << 10;                 // request line and headers together: 414 or 431
  size_t body_bytes = 8 << 20;                    // as sent, and again as unpacked: 413
  size_t stream_bytes = 1 << 20;                  // waiting for one reader of a Stream: it is cut off
  unsigned connections = 1500;                    // further ones are closed at once
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

// What a server serves. Called by several threads at once; an exception becomes a plain 500.
class Service {
 public:
  virtual ~Service() = default;
  // The headers are there, the body is not: an answer here is sent at once and the body never read (refused token,
  // unknown path, wrong method).
  virtual std::optional<Response> begin(const Request& request) = 0;
  // The whole request.
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
