#pragma once

// Kubernetes' API, as far as a run needs it.

#include <chrono>
#include <string>

#include "mlbench/base/json.h"
#include "mlbench/exec/kubernetes/config.h"
#include "mlbench/net/http/client.h"

namespace mlbench::exec::kubernetes {

struct ApiAnswer {
  int status = 0;          // of HTTP; 0: nobody answered
  Json body = {};          // null where it is no JSON
  std::string words = {};  // of what is no success: why, in the server's words where it has some

  bool good() const { return status >= 200 && status < 300; }
  bool unknown() const { return status == 404; }
  // The same may succeed in a moment: nobody answered, or the server is busy, restarts, or was asked amid a change.
  bool passing() const;
};

struct ApiPace {
  std::chrono::milliseconds answer{10'000};                        // for one answer
  std::chrono::milliseconds change{30'000};                        // for a change that has to be, all tries together
  std::chrono::milliseconds first_wait{200}, longest_wait{3'000};  // between two tries
};

// Not thread-safe.
class Api {
 public:
  explicit Api(Cluster cluster, ApiPace pace = {});

  // Throws nothing but UserError for a server that has no address.
  ApiAnswer get(const std::string& path);
  // Made, or found there with the same label mlbench/start: an earlier try succeeded without a word. Where it may not
  // be looked at, as secrets may not, one of that name is ours (names are random), and `object` is returned.
  // IoError with the server's words when it is refused, or `change` has passed.
  Json create(const std::string& path, const Json& object);
  // A merge patch (RFC 7386). IoError likewise.
  Json change(const std::string& path, const Json& patch);
  // With all that it owns, which is gone first. False: there is none. IoError likewise.
  bool remove(const std::string& path, int grace_seconds);

  const Cluster& cluster() const { return cluster_; }

 private:
  ApiAnswer ask(const std::string& method, const std::string& path, const Json& body,
                const std::string& content_type = "application/json");
  ApiAnswer insist(const std::string& method, const std::string& path, const Json& body,
                   const std::string& content_type = "application/json");
  [[noreturn]] void refuse(const std::string& what, const ApiAnswer& answer) const;

  const Cluster cluster_;
  const ApiPace pace_;
  net::http::Client client_;
};

}  // namespace mlbench::exec::kubernetes
