#pragma once

// An HTTP client: one connection, kept open between requests (libcurl behind it).

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "mlbench/net/http/message.h"

namespace mlbench::net::http {

struct ClientRequest {
  std::string method = "GET";
  std::string url;
  Fields headers;
  std::string body;  // sent when not empty, or with POST
  std::string content_type = "application/json";
  std::string certificate;     // of the server, where no known authority vouches for it: path of a PEM file
  std::string authority = {};  // the same as a text
  bool unchecked = false;      // whoever answers is the server
  std::string own_certificate = {}, own_key = {};  // PEM texts, of this client where the server asks for one
  std::chrono::milliseconds timeout{30'000};       // for all of it; zero: none
  std::chrono::seconds silence{0};                 // the longest time without a byte; zero: any
  // Takes the body of a 2xx answer piece by piece instead of ClientResponse::body; false ends the transfer.
  std::function<bool(std::string_view)> on_data;
};

struct ClientResponse {
  int status = 0;
  std::string content_type;
  Fields headers;
  std::string body;
};

class Client {
 public:
  Client();
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Any status is an answer. CommError when nobody answers (UserError for a URL that is none), CommTimeout when it
  // takes too long. No redirects; no proxy for this machine itself.
  ClientResponse send(const ClientRequest& request);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mlbench::net::http
