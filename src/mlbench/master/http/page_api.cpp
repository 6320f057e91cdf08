// The dashboard's files, and the logins of the browsers that show it.

#include <fmt/format.h>

#include <map>

#include "mlbench/base/sha256.h"
#include "mlbench/home/owner.h"
#include "mlbench/master/http/dashboard.h"
#include "mlbench/master/http/services.h"

namespace mlbench::master {

namespace {

// ---- files ----------------------------------------------------------------------------------------------------------

const char* type_of(std::string_view name) {
  static const std::map<std::string_view, const char*> kTypes = {{"html", "text/html; charset=utf-8"},
                                                                 {"js", "text/javascript; charset=utf-8"},
                                                                 {"css", "text/css; charset=utf-8"},
                                                                 {"svg", "image/svg+xml"}};
  const auto found = kTypes.find(name.substr(name.rfind('.') + 1));
  return found == kTypes.end() ? "application/octet-stream" : found->second;
}

struct PageFile {
  const EmbeddedFile* file = nullptr;
  std::string tag;  // a hash of the content
};

std::map<std::string_view, PageFile> page_files() {
  std::map<std::string_view, PageFile> files;
  for (const EmbeddedFile& file : dashboard_files()) {
    files[file.name] = {&file, fmt::format("\"{}\"", sha256_hex(file.text).substr(0, 32))};
  }
  return files;
}

// Sends a file of the dashboard. Browsers ask for it each time; the answer is short where the content is unchanged.
Response send_file(const Request& request, const std::string& name) {
  static const std::map<std::string_view, PageFile> files = page_files();
  const auto found = files.find(name);
  if (found == files.end()) throw HttpError(404, fmt::format("the dashboard has no file '{}'", name.substr(0, 80)));
  const auto& [file, tag] = found->second;
  Response response{200, type_of(name), {{"ETag", tag}, {"Cache-Control", "no-cache"}}, "", {}};
  if (request.header("If-None-Match") == tag) {
    response.status = 304;
  } else {
    response.body = file->text;
  }
  return response;
}

// ---- logins ---------------------------------------------------------------------------------------------------------

Response log_in(Services& services, const Request& request) {
  const Json body = json_body(request);
  const auto text = [&](const char* name) {
    const auto found = body.find(name);
    return found != body.end() && found->is_string() ? found->get<std::string>() : "";
  };
  const std::string token = text("token"), code = text("code");
  if (token.empty() == code.empty()) throw HttpError(400, "either token or code is needed, as text");
  if (!code.empty() && !services.sessions.take_code(code)) {
    throw HttpError(401, "this link was used already, or is too old: 'mlbench dashboard' makes another one");
  }
  if (!token.empty() && !home::same_secret(token, services.token)) {
    throw HttpError(401, "this is not the token of this server");
  }
  return json_response(201, {{"session", services.sessions.open()},
                             {"expires_s", std::chrono::seconds(Sessions::kSessionTime).count()}});
}

Response log_out(Services& services, const Request& request) {
  services.sessions.close(shown_secret(request));
  return {204, "", {}, "", {}};
}

}  // namespace

std::vector<Route> page_routes(Services& services) {
  Services* s = &services;
  return {
      {"GET", "/", Access::kOpen, [](const Call& call) { return send_file(call.request, "index.html"); },
       Lane::kAtOnce},
      {"GET", "/assets/{file}", Access::kOpen,
       [](const Call& call) { return send_file(call.request, "assets/" + call.parameters[0]); }, Lane::kAtOnce},
      {"POST", "/api/v1/session", Access::kOpen, [s](const Call& call) { return log_in(*s, call.request); },
       Lane::kAtOnce},
      {"DELETE", "/api/v1/session", Access::kToken, [s](const Call& call) { return log_out(*s, call.request); },
       Lane::kAtOnce},
      {"POST", "/api/v1/session/codes", Access::kToken,
       [s](const Call&) {
         return json_response(201, {{"code", s->sessions.make_code()},
                                    {"expires_s", std::chrono::seconds(Sessions::kCodeTime).count()}});
       }},
  };
}

}  // namespace mlbench::master
