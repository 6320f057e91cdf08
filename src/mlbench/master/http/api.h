#pragma once

// What is common to all requests: routes, who may ask, and what an error looks like.

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
  std::vector<std::string> parameters;  // the {} of the pattern, decoded, in order
};

enum class Access {
  kOpen,    // anybody: says nothing about anything
  kToken,   // who shows the token, or the secret of a login
  kLegacy,  // today's clients, who send none: only where --legacy-api is given
};

// The bodies that a route takes. Without a token they are small, and nothing is unpacked.
enum class Body {
  kSmall,    // 4 KiB: none, or a few words
  kForm,     // 64 KiB: what MLBench's clients post
  kRequest,  // 1 MiB, with gzip or not: what describes runs
  kBatch,    // 8 MiB, with gzip or not: points, metrics
};

struct Route {
  std::string method;
  std::string pattern;  // "/api/v1/runs/{name}"; a last slash in a request changes nothing
  Access access = Access::kToken;
  std::function<Response(const Call&)> handler;
  Lane lane = Lane::kQuick;
  Body body = Body::kSmall;
};

// An answer other than success: {"status", "message"}.
class HttpError : public std::runtime_error {
 public:
  HttpError(int code, const std::string& message) : std::runtime_error(message), status(code) {}
  int status;
};

Response json_response(int status, const Json& body);
Response error_response(int status, const std::string& message);

// The body as a JSON object: 415 for another type of content, 400 for what is no object, or more than base/input.h
// allows.
Json json_body(const Request& request);
// A whole number of the query; 400 unless it lies in the range.
int64_t whole_number(const Request& request, const std::string& name, int64_t usual, int64_t least, int64_t most);
// "true" or "1", "false" or "0"; 400 for others.
bool yes_or_no(const Request& request, const std::string& name);

struct ApiOptions {
  std::string token;
  bool legacy = false;
  std::vector<std::string> hosts;  // names that a Host header may hold, beside addresses and localhost
  const Sessions* sessions = nullptr;
};

// What a request shows: "Authorization: Bearer SECRET"; "" when it shows nothing.
std::string_view shown_secret(const Request& request);

class Api final : public net::http::Service {
 public:
  Api(ApiOptions options, std::vector<Route> routes);
  Admission begin(const Request& request) override;
  Response handle(const Request& request) override;
  std::vector<std::pair<std::string, std::string>> routes() const;  // method and pattern

 private:
  struct Match {
    const Route* route = nullptr;
    std::vector<std::string> parameters;
    std::string allowed;  // methods of the path, where the method is none of them
  };
  Match match(const Request& request) const;
  // Names in the query that the route does not know. The routes of MLBench's and MLflow's clients take any: these send
  // more than is looked at.
  std::optional<Response> refuse_query(const Request& request, const Route& route) const;
  // `unknown`: what refuse_unknown() said.
  std::optional<Response> refuse(const Request& request, const Match& match,
                                 const std::optional<Response>& unknown) const;
  std::optional<Response> refuse_unknown(const Request& request) const;

  const ApiOptions options_;
  const std::vector<Route> routes_;
  std::vector<std::vector<std::string>> patterns_;  // of routes_, split
  // Of routes_: what api/openapi.json has as parameters of the query; nothing where any is taken.
  std::vector<std::optional<std::vector<std::string>>> query_names_;
};

}  // namespace mlbench::master
