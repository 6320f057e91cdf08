#pragma once

// What all requests have in common: routes, who may ask, and what an error looks like.

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/master/http/session.h"
#include "mlbench/net/http/server.h"

namespace mlbench::master {

using net::http::Admission;
using net::http::Lane;
using net::http::Request;
using net::http::Response;

struct Call {
  const Request& request;
  std::vector<std::string> parameters;  // what stands for each {} of the pattern, decoded, in order
};

enum class Access {
  kOpen,    // open to anybody: the answer holds nothing of the home
  kToken,   // for requests that show the token, or the secret of a login
  kLegacy,  // for MLBench's clients, which send no token: only with --legacy-api
};

// The largest body that a route takes. Routes that need no token take small bodies, and unpack nothing.
enum class Body {
  kSmall,    // 4 KiB: no body, or a few words
  kForm,     // 64 KiB: forms of MLBench's clients
  kRequest,  // 1 MiB, with gzip or not: descriptions of runs
  kBatch,    // 8 MiB, with gzip or not: points, metrics
};

struct Route {
  std::string method;
  std::string pattern;  // "/api/v1/runs/{name}"; a slash at a request's end is ignored
  Access access = Access::kToken;
  std::function<Response(const Call&)> handler;
  Lane lane = Lane::kQuick;
  Body body = Body::kSmall;
};

// Thrown by handlers: becomes an answer with this status and the body {"status", "message"}.
class HttpError : public std::runtime_error {
 public:
  HttpError(int code, const std::string& message) : std::runtime_error(message), status(code) {}
  int status;
};

Response json_response(int status, const Json& body);
Response error_response(int status, const std::string& message);

// The body as a JSON object. Throws HttpError 415 for another content type, and 400 for a body that is no JSON object
// or exceeds the limits of base/input.h.
Json json_body(const Request& request);
// The whole number `name` of the query, or `usual` where it is not given. Throws HttpError 400 for a value outside
// `least` to `most`.
int64_t whole_number(const Request& request, const std::string& name, int64_t usual, int64_t least, int64_t most);
// Reads `name` of the query: "true" or "1", "false" or "0" (also where it is not given). Throws HttpError 400 for
// others.
bool yes_or_no(const Request& request, const std::string& name);

struct ApiOptions {
  std::string token;
  bool legacy = false;
  std::vector<std::string> hosts;  // names that a Host header may hold, beside IP addresses and localhost
  const Sessions* sessions = nullptr;
};

// The secret that a request shows as "Authorization: Bearer SECRET"; "" where it shows none.
std::string_view shown_secret(const Request& request);

class Api final : public net::http::Service {
 public:
  Api(ApiOptions options, std::vector<Route> routes);
  Admission begin(const Request& request) override;
  Response handle(const Request& request) override;
  std::vector<std::pair<std::string, std::string>> routes() const;  // {method, pattern}

 private:
  struct Match {
    const Route* route = nullptr;
    std::vector<std::string> parameters;
    std::string allowed;  // methods that the path has, where the request's is none of them
  };
  Match match(const Request& request) const;
  // Refuses names in the query that the route does not know. Routes for MLBench's and MLflow's clients take any name,
  // since these clients send more than is used.
  std::optional<Response> refuse_query(const Request& request, const Route& route) const;
  // `unknown` is the result of refuse_unknown().
  std::optional<Response> refuse(const Request& request, const Match& match,
                                 const std::optional<Response>& unknown) const;
  std::optional<Response> refuse_unknown(const Request& request) const;

  const ApiOptions options_;
  const std::vector<Route> routes_;
  std::vector<std::vector<std::string>> patterns_;  // patterns of `routes_`, split at slashes
  // For each of `routes_`, the query parameters in api/openapi.json; empty where any name is taken.
  std::vector<std::optional<std::vector<std::string>>> query_names_;
};

}  // namespace mlbench::master
