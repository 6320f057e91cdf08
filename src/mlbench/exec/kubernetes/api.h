#pragma once

// A client of Kubernetes' API, as far as a run needs it.

#include <chrono>
#include <string>

#include "mlbench/base/json.h"
#include "mlbench/exec/kubernetes/config.h"
#include "mlbench/net/http/client.h"

namespace mlbench::exec::kubernetes {

struct ApiAnswer {
  int status = 0;          // HTTP's; 0: nobody answered
  Json body = {};          // null where it is no JSON
  std::string words = {};  // why the request did not succeed, in the server's words where it has some

  bool good() const { return status >= 200 && status < 300; }
  bool unknown() const { return status == 404; }
  // Whether the same request may succeed in a moment: nobody answered, or the server is busy, restarts, or was amid a
  // change.
  bool passing() const;
};

struct ApiPace {
  std::chrono::milliseconds answer{10'000};  // limit for one answer
  std::chrono::milliseconds change{30'000};  // limit for a change that has to succeed, all tries together
  std::chrono::milliseconds first_wait{200}, longest_wait{3'000};  // waits between two tries
};

// Not thread-safe.
class Api {
 public:
  explicit Api(Cluster cluster, ApiPace pace = {});

  // Asks once. Throws only UserError, for a server that has no address.
  ApiAnswer get(const std::string& path);
  // Creates `object` at `path`, and returns it as the server has it. Where an object with the same label mlbench/start
  // is there already, an earlier try succeeded without an answer, and that object is returned. Where that object may
  // not be read, as secrets may not, it is taken for ours (names are random), and `object` is returned. Throws IoError
  // with the server's words where the server refuses, or when ApiPace::change has passed.
  Json create(const std::string& path, const Json& object);
  // Changes an object by a merge patch (RFC 7386), and returns it. Throws IoError as create().
  Json change(const std::string& path, const Json& patch);
  // Deletes an object after all that it owns. Returns false where there is no such object. Throws IoError as create().
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
