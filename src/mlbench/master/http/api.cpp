#include "mlbench/master/http/api.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>

#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/base/log.h"
#include "mlbench/master/owner.h"
#include "mlbench/master/runs.h"

namespace mlbench::master {

namespace {

// "name:8080" -> "name"; "[::1]:80" -> "::1".
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

// The one place where an exception becomes an answer.
Response answer_of(const std::exception& error) {
  if (const auto* http = dynamic_cast<const HttpError*>(&error)) return error_response(http->status, http->what());
  if (dynamic_cast<const NameTaken*>(&error) != nullptr) return error_response(409, error.what());
  if (dynamic_cast<const UserError*>(&error) != nullptr) return error_response(400, error.what());
  spdlog::error("request failed: {}", error.what());
  const bool refused = dynamic_cast<const IoError*>(&error) != nullptr ||
                       dynamic_cast<const std::filesystem::filesystem_error*>(&error) != nullptr;
  if (refused) return error_response(503, error.what());
  return error_response(500, "internal error");
}

// For every answer, pages or not: what a browser shows of us loads nothing from elsewhere, runs no script that came
// with data, and is in nobody's frame.
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
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < least || value > most) {
    throw HttpError(400, fmt::format("{}={} is no whole number from {} to {}", name, text->substr(0, 40), least, most));
  }
  return value;
}

bool yes_or_no(const Request& request, const std::string& name) {
  const std::string text = request.query(name).value_or("false");
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  throw HttpError(400, fmt::format("{}={}: valid are true and false", name, text.substr(0, 40)));
}

Api::Api(ApiOptions options, std::vector<Route> routes) : options_(std::move(options)), routes_(std::move(routes)) {
  for (const Route& route : routes_) {
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

std::optional<Response> Api::refuse(const Request& request, const Match& match) const {
  // A page of another site can make a browser send requests here: by a name that it lets point to us, or openly.
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

  // Who has no token does not learn which paths exist.
  const bool legacy_path = !request.target.segments.empty() && request.target.segments[0] == "api" &&
                           (request.target.segments.size() < 2 ||
                            (request.target.segments[1] != "v1" && request.target.segments[1] != "2.0"));
  const bool open =
      (match.route != nullptr && match.route->access == Access::kOpen) || (legacy_path && options_.legacy);
  if (!open) {
    if (auto refused = refuse_unknown(request)) return refused;
  }
  if (match.route == nullptr && !match.allowed.empty()) {
    Response response = error_response(
        405, fmt::format("{} is not possible here: valid are {}", request.method.substr(0, 20), match.allowed));
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
  constexpr std::string_view kBearer = "Bearer ";
  const std::string_view header = request.header("Authorization");
  if (header.starts_with(kBearer) && same_secret(header.substr(kBearer.size()), options_.token)) return std::nullopt;
  const auto session = options_.sessions->find(cookie_value(request));
  if (!session) {
    Response response = error_response(401, "show the token of this server: 'Authorization: Bearer TOKEN'");
    response.headers.emplace_back("WWW-Authenticate", "Bearer");
    return response;
  }
  // A cookie comes by itself, also with what another port of this host makes the browser send.
  const std::string_view site = request.header("Sec-Fetch-Site");
  if (!site.empty() && site != "same-origin" && site != "none") {
    return error_response(403, "requests from pages of other sites are refused");
  }
  const bool reads = request.method == "GET" || request.method == "HEAD";
  if (!reads && !same_secret(request.header("X-CSRF-Token"), session->csrf)) {
    return error_response(403, "with a cookie, what changes something needs the header X-CSRF-Token of the login");
  }
  return std::nullopt;
}

std::optional<Response> Api::begin(const Request& request) {
  auto refused = refuse(request, match(request));
  if (refused) refused = sealed(std::move(*refused));
  return refused;
}

Response Api::handle(const Request& request) {
  const Match found = match(request);
  MLBENCH_CHECK(found.route != nullptr, "begin() refuses what has no route");
  Response response;
  try {
    response = found.route->handler({request, found.parameters});
  } catch (const std::exception& error) {
    response = answer_of(error);
  }
  return sealed(std::move(response));
}

}  // namespace mlbench::master
