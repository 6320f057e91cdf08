#include "mlbench/master/http/api.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/log.h"
#include "mlbench/base/system_error.h"
#include "mlbench/base/to_number.h"
#include "mlbench/home/owner.h"
#include "mlbench/home/runs.h"
#include "mlbench/master/http/openapi.h"

namespace mlbench::master {

namespace {

// The host without its port: "name" of "name:8080", "::1" of "[::1]:80".
std::string host_of(std::string_view field) {
  if (field.starts_with('[')) {
    const size_t end = field.find(']');
    return end == std::string_view::npos ? "" : std::string(field.substr(1, end - 1));
  }
  return std::string(field.substr(0, field.rfind(':')));
}

bool is_address(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  return inet_pton(AF_INET, host.c_str(), &v4) == 1 || inet_pton(AF_INET6, host.c_str(), &v6) == 1;
}

// Makes the answer to an exception; no other place does.
Response answer_of(const std::exception& error) {
  if (const auto* http = dynamic_cast<const HttpError*>(&error)) return error_response(http->status, http->what());
  if (dynamic_cast<const home::NameTaken*>(&error) != nullptr) return error_response(409, error.what());
  if (dynamic_cast<const UserError*>(&error) != nullptr) return error_response(400, error.what());
  spdlog::error("request failed: {}", error.what());
  const bool passes = is_transient(error);
  const bool refused = dynamic_cast<const IoError*>(&error) != nullptr ||
                       dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr;
  if (!passes && !refused) return error_response(500, "internal error");
  Response response = error_response(503, error.what());
  if (passes) response.headers.emplace_back("Retry-After", "1");
  return response;
}

struct BodyLimits {
  size_t bytes, unpacked_bytes;
};

BodyLimits limits_of(Body body) {
  switch (body) {
    case Body::kSmall:
      return {4 << 10, 0};
    case Body::kForm:
      return {64 << 10, 0};
    case Body::kRequest:
      return {1 << 20, 1 << 20};
    case Body::kBatch:
      return {8 << 20, 8 << 20};
  }
  return {};
}

// Adds headers to every answer: a page of ours loads nothing from elsewhere, runs no script that came with data, and
// cannot be framed.
Response sealed(Response response) {
  const auto has = [&](const std::string& name) {
    return std::any_of(response.headers.begin(), response.headers.end(),
                       [&](const auto& field) { return field.first == name; });
  };
  if (!has("Cache-Control")) response.headers.emplace_back("Cache-Control", "no-store");
  for (const auto& [name, value] : {
           std::pair("Content-Security-Policy",
                     "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
                     "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
                     "require-trusted-types-for 'script'; trusted-types 'none'"),
           std::pair("X-Content-Type-Options", "nosniff"),
           std::pair("X-Frame-Options", "DENY"),
           std::pair("Referrer-Policy", "no-referrer"),
           std::pair("Cross-Origin-Opener-Policy", "same-origin"),
           std::pair("Cross-Origin-Resource-Policy", "same-origin"),
       }) {
    response.headers.emplace_back(name, value);
  }
  return response;
}

}  // namespace

Response json_response(int status, const Json& body) {
  return {status, "application/json", {}, body.dump(-1, ' ', false, Json::error_handler_t::replace), {}};
}

Response error_response(int status, const std::string& message) {
  return json_response(status, {{"status", status}, {"message", message}});
}

Json json_body(const Request& request) {
  const std::string type = request.content_type();
  if (type != "application/json") {
    throw HttpError(415, fmt::format("the body is '{}': expected application/json", type.substr(0, 80)));
  }
  Json body;
  try {
    body = parse_json(request.body, inputs::kJsonBody);
  } catch (const UserError& error) {
    throw HttpError(400, fmt::format("the body is no JSON ({})", error.what()));
  }
  if (!body.is_object()) throw HttpError(400, fmt::format("the body is JSON, but no object: {}", body.type_name()));
  return body;
}

int64_t whole_number(const Request& request, const std::string& name, int64_t usual, int64_t least, int64_t most) {
  const auto text = request.query(name);
  if (!text) return usual;
  const auto value = to_number<int64_t>(*text);
  if (!value || *value < least || *value > most) {
    throw HttpError(400, fmt::format("{}={} is no whole number from {} to {}", name, text->substr(0, 40), least, most));
  }
  return *value;
}

bool yes_or_no(const Request& request, const std::string& name) {
  const std::string text = request.query(name).value_or("false");
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  throw HttpError(400, unknown_text(name, text, {"true", "false"}));
}

std::string_view shown_secret(const Request& request) {
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view header = request.header("Authorization");
  return header.starts_with(kBearer) ? header.substr(kBearer.size()) : std::string_view();
}

namespace {

std::optional<std::vector<std::string>> query_names(const Json& description, const Route& route) {
  const bool ours = route.pattern.starts_with("/api/v1/") || route.pattern == "/metrics";
  if (!ours) return std::nullopt;
  std::string method = route.method;
  std::ranges::transform(method, method.begin(), [](char c) { return static_cast<char>(c | 0x20); });
  std::vector<std::string> names;
  const Json& operation = description.at("paths").at(route.pattern).at(method);
  for (const Json& parameter : operation.value("parameters", Json::array())) {
    if (parameter.at("in") == "query") names.push_back(parameter.at("name"));
  }
  return names;
}

}  // namespace

Api::Api(ApiOptions options, std::vector<Route> routes) : options_(std::move(options)), routes_(std::move(routes)) {
  const Json description = parse_json(openapi_document(), inputs::kMasterAnswer);
  for (const Route& route : routes_) {
    query_names_.push_back(query_names(description, route));
    const auto target = net::http::parse_target(route.pattern);
    MLBENCH_CHECK(target.has_value(), route.pattern);
    patterns_.push_back(target->segments);
  }
}

std::vector<std::pair<std::string, std::string>> Api::routes() const {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Route& route : routes_) out.emplace_back(route.method, route.pattern);
  return out;
}

Api::Match Api::match(const Request& request) const {
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  Match found;
  for (size_t i = 0; i < routes_.size(); ++i) {
    const auto& pattern = patterns_[i];
    const auto& given = request.target.segments;
    if (pattern.size() != given.size()) continue;
    std::vector<std::string> parameters;
    bool same = true;
    for (size_t k = 0; k < pattern.size() && same; ++k) {
      if (pattern[k].starts_with('{')) {
        parameters.push_back(given[k]);
      } else {
        same = pattern[k] == given[k];
      }
    }
    if (!same) continue;
    if (routes_[i].method == method) return {&routes_[i], std::move(parameters), ""};
    found.allowed += (found.allowed.empty() ? "" : ", ") + routes_[i].method;
  }
  return found;
}

std::optional<Response> Api::refuse(const Request& request, const Match& match,
                                    const std::optional<Response>& unknown) const {
  // A page of another site can make a browser send requests here: under a name that it points to this host, or openly.
  const std::string host = host_of(request.header("Host"));
  const bool known = host == "localhost" || is_address(host) ||
                     std::find(options_.hosts.begin(), options_.hosts.end(), host) != options_.hosts.end();
  if (!known) {
    return error_response(421, fmt::format("this server does not answer to the name '{}': start it with --allow-host",
                                           host.substr(0, 80)));
  }
  const std::string_view origin = request.header("Origin");
  const std::string own = fmt::format("{}://{}", request.secure ? "https" : "http", request.header("Host"));
  if (!origin.empty() && origin != own) return error_response(403, "requests from pages of other sites are refused");

  // Some requests of a page have no Origin; the browser then says in Sec-Fetch-Site that another site or another port
  // of this host asked. Only links to our page may come from elsewhere.
  const std::string_view site = request.header("Sec-Fetch-Site");
  const bool page = match.route != nullptr && match.route->access == Access::kOpen && match.route->method == "GET";
  if (!page && !site.empty() && site != "same-origin" && site != "none") {
    return error_response(403, "requests from pages of other sites are refused");
  }

  // A request without a token does not learn which paths exist.
  const bool legacy_path = !request.target.segments.empty() && request.target.segments[0] == "api" &&
                           (request.target.segments.size() < 2 ||
                            (request.target.segments[1] != "v1" && request.target.segments[1] != "2.0"));
  const bool open =
      (match.route != nullptr && match.route->access == Access::kOpen) || (legacy_path && options_.legacy);
  if (!open && unknown) return unknown;
  if (match.route == nullptr && !match.allowed.empty()) {
    Response response = error_response(
        405, fmt::format("{} is not possible here; valid: {}", request.method.substr(0, 20), match.allowed));
    response.headers.emplace_back("Allow", match.allowed);
    return response;
  }
  if (match.route == nullptr) {
    return error_response(404, "there is nothing here: /api/v1/openapi.json describes all paths");
  }
  if (match.route->access == Access::kLegacy && !options_.legacy) {
    return error_response(404, "the API of MLBench's clients is switched off: mlbench serve --legacy-api");
  }
  return std::nullopt;
}

std::optional<Response> Api::refuse_unknown(const Request& request) const {
  const std::string_view secret = shown_secret(request);
  if (home::same_secret(secret, options_.token) || options_.sessions->holds(secret)) return std::nullopt;
  Response response = error_response(401, "show the token of this server: 'Authorization: Bearer TOKEN'");
  response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

std::optional<Response> Api::refuse_query(const Request& request, const Route& route) const {
  const auto& valid = query_names_.at(static_cast<size_t>(&route - routes_.data()));
  if (!valid) return std::nullopt;
  for (const auto& [name, value] : request.target.query) {
    if (std::ranges::find(*valid, name) != valid->end()) continue;
    return error_response(400, unknown_text("parameter of the query", name, *valid));
  }
  return std::nullopt;
}

Admission Api::begin(const Request& request) {
  const Match found = match(request);
  const std::optional<Response> unknown = refuse_unknown(request);
  Admission admission;
  admission.known = !unknown;
  admission.refusal = refuse(request, found, unknown);
  if (!admission.refusal) admission.refusal = refuse_query(request, *found.route);
  if (admission.refusal) {
    admission.refusal = sealed(std::move(*admission.refusal));
    return admission;
  }
  const BodyLimits limits = limits_of(found.route->body);
  admission.body_bytes = limits.bytes;
  admission.unpacked_bytes = limits.unpacked_bytes;
  admission.lane = found.route->lane;
  return admission;
}

Response Api::handle(const Request& request) {
  const Match found = match(request);
  MLBENCH_CHECK(found.route != nullptr, "begin() refuses what has no route");
  Response response;
  try {
    response = found.route->handler({request, found.parameters});
    // An error in the first piece is answered; in a later one, the answer can only be cut off.
    if (response.next && response.body.empty()) response.body = response.next();
  } catch (const std::exception& error) {
    response = answer_of(error);
  }
  return sealed(std::move(response));
}

}  // namespace mlbench::master
