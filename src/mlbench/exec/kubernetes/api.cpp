#include "mlbench/exec/kubernetes/api.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/text.h"
#include "mlbench/exec/kubernetes/manifest.h"

namespace mlbench::exec::kubernetes {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr size_t kLongestWords = 1000;

std::string label_of_start(const Json& object) {
  const Json labels = object.value("metadata", Json::object()).value("labels", Json::object());
  return labels.is_object() ? labels.value(kStartLabel, "") : "";
}

}  // namespace

bool ApiAnswer::passing() const {
  constexpr std::array<int, 8> kPassing = {408, 410, 425, 429, 500, 502, 503, 504};
  return status == 0 || std::ranges::find(kPassing, status) != kPassing.end();
}

Api::Api(Cluster cluster, ApiPace pace) : cluster_(std::move(cluster)), pace_(pace) {}

ApiAnswer Api::get(const std::string& path) { return ask("GET", path, nullptr); }

Json Api::create(const std::string& path, const Json& object) {
  const std::string name = object.at("metadata").at("name");
  ApiAnswer answer = insist("POST", path, object);
  if (answer.status == 409) {
    const ApiAnswer there = insist("GET", path + "/" + name, nullptr);
    if (there.good() && label_of_start(there.body) == label_of_start(object)) answer = there;
    if (there.status == 403) return object;
  }
  if (!answer.good() || !answer.body.is_object()) {
    refuse(fmt::format("{} {}", object.value("kind", "object"), name), answer);
  }
  return answer.body;
}

Json Api::change(const std::string& path, const Json& patch) {
  const auto deadline = steady_clock::now() + pace_.change;
  for (;;) {
    ApiAnswer answer = insist("PATCH", path, patch, "application/merge-patch+json");
    if (answer.good()) return answer.body;
    if (answer.status != 409 || steady_clock::now() >= deadline) refuse("a change of " + path, answer);
    std::this_thread::sleep_for(pace_.first_wait);
  }
}

bool Api::remove(const std::string& path, int grace_seconds) {
  const Json options = {{"apiVersion", "v1"},
                        {"kind", "DeleteOptions"},
                        {"propagationPolicy", "Foreground"},
                        {"gracePeriodSeconds", grace_seconds}};
  const auto deadline = steady_clock::now() + pace_.change;
  for (;;) {
    const ApiAnswer answer = insist("DELETE", path, options);
    if (answer.good()) return true;
    if (answer.unknown()) return false;
    if (answer.status != 409 || steady_clock::now() >= deadline) refuse("the end of " + path, answer);
    std::this_thread::sleep_for(pace_.first_wait);
  }
}

ApiAnswer Api::insist(const std::string& method, const std::string& path, const Json& body,
                      const std::string& content_type) {
  const auto deadline = steady_clock::now() + pace_.change;
  for (milliseconds wait = pace_.first_wait;; wait = std::min(wait * 2, pace_.longest_wait)) {
    ApiAnswer answer = ask(method, path, body, content_type);
    if (!answer.passing() || steady_clock::now() + wait >= deadline) return answer;
    std::this_thread::sleep_for(wait);
  }
}

ApiAnswer Api::ask(const std::string& method, const std::string& path, const Json& body,
                   const std::string& content_type) {
  net::http::ClientRequest request;
  request.method = method;
  request.url = cluster_.server + path;
  request.timeout = pace_.answer;
  request.authority = cluster_.authority;
  request.unchecked = cluster_.insecure;
  request.own_certificate = cluster_.certificate;
  request.own_key = cluster_.key;
  request.headers.emplace_back("Accept", "application/json");
  if (!body.is_null()) {
    request.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
    request.content_type = content_type;
  }
  ApiAnswer answer;
  try {
    const std::string token =
        cluster_.token_file.empty() ? cluster_.token : trimmed(read_file(cluster_.token_file, inputs::kKubeConfig));
    if (!token.empty()) request.headers.emplace_back("Authorization", "Bearer " + token);
    const net::http::ClientResponse response = client_.send(request);
    answer.status = response.status;
    answer.body = try_parse_json(response.body, inputs::kKubernetesAnswer).value_or(nullptr);
    if (answer.good()) return answer;
    answer.words = answer.body.is_object() && answer.body.contains("message") && answer.body["message"].is_string()
                       ? answer.body["message"].get<std::string>()
                       : fmt::format("HTTP {}", response.status);
  } catch (const CommError& error) {
    answer.words = error.what();
  } catch (const IoError& error) {
    answer.words = error.what();  // the token cannot be read, as it is being replaced
  }
  if (answer.words.size() > kLongestWords) answer.words.resize(kLongestWords);
  return answer;
}

void Api::refuse(const std::string& what, const ApiAnswer& answer) const {
  std::string hint;
  if (answer.status == 401) hint = fmt::format("; asked as {}", cluster_.from);
  if (answer.status == 403) {
    hint = fmt::format("; asked as {}, which needs rights that docs/executors/kubernetes.md lists", cluster_.from);
  }
  throw IoError(fmt::format("Kubernetes at {} refuses {}{}: {}{}", cluster_.server, what,
                            answer.status == 0 ? "" : fmt::format(" (HTTP {})", answer.status),
                            answer.words.empty() ? "its answer is none" : answer.words, hint));
}

}  // namespace mlbench::exec::kubernetes
