#pragma once

// An HTTP client with one connection, kept open between requests (libcurl behind it).

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mlbench/net/http/message.h"

namespace mlbench::net::http {

struct ClientResponse {
  int status = 0;
  std::string content_type;
  Fields headers;
  std::string body;
};

// Signs a request as Signature Version 4 of AWS has it (libcurl computes it). The query must be in the order of its
// names, path and query must be percent-encoded.
struct Signing {
  std::string region, service;
  std::string access_key, secret_key;
};

struct ClientRequest {
  std::string method = "GET";
  std::string url;
  Fields headers;
  std::string body;  // sent when not empty, or with POST
  std::string content_type = "application/json";
  std::string certificate;     // path of a PEM file: the server's certificate, where no known authority vouches for it
  std::string authority = {};  // that certificate as a PEM text
  bool unchecked = false;      // true: whoever answers is taken for the server
  std::string own_certificate = {}, own_key = {};  // PEM texts of this client, where the server asks for them
  std::chrono::milliseconds timeout{30'000};       // for the whole request; zero: no limit
  std::chrono::seconds silence{0};                 // the longest time without a byte; zero: no limit
  std::optional<Signing> signing = {};
  // Sees status and headers of a 2xx answer before its body. An exception ends the transfer and leaves send().
  std::function<void(const ClientResponse&)> on_start = {};
  // Takes the body of a 2xx answer piece by piece, in place of ClientResponse::body. Returning false ends the transfer.
  std::function<bool(std::string_view)> on_data;
};

class Client {
 public:
  Client();
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Sends a request and waits for the answer, whatever its status. Throws CommError when nobody answers (UserError for
  // a URL that is none), and CommTimeout when the answer takes too long. Follows no redirects, and uses no proxy for
  // this machine itself.
  ClientResponse send(const ClientRequest& request);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mlbench::net::http
