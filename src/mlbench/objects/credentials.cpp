#include "mlbench/objects/credentials.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/ini.h"
#include "mlbench/base/input.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/text.h"
#include "mlbench/net/http/client.h"

namespace mlbench::objects {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::milliseconds kIdentityTimeout{2'000};
constexpr std::chrono::minutes kBeforeExpiry{5};

std::string variable(const char* name) { return environment_variable(name).value_or(""); }

std::string profile() { return environment_variable("AWS_PROFILE").value_or("default"); }

fs::path aws_file(const char* variable_name, const char* name) {
  if (const auto given = environment_variable(variable_name)) return *given;
  const auto home = environment_variable("HOME");
  return home ? fs::path(*home) / ".aws" / name : fs::path();
}

// The settings of a section; of several with that name, as the last one has them.
std::vector<std::pair<std::string, std::string>> section_of(const fs::path& file, const std::string& name) {
  std::vector<std::pair<std::string, std::string>> settings;
  if (file.empty() || !fs::exists(file)) return settings;
  for (const IniSection& section : parse_ini(read_file(file, inputs::kCredentialsFile))) {
    if (section.name != name) continue;
    settings.insert(settings.end(), section.settings.begin(), section.settings.end());
  }
  return settings;
}

std::string setting_of(const std::vector<std::pair<std::string, std::string>>& settings, std::string_view name) {
  std::string found;
  for (const auto& [key, value] : settings) {
    if (key == name) found = value;
  }
  return found;
}

// The credentials go into headers. The message says nothing of them.
Credentials checked(Credentials credentials, const std::string& where) {
  for (const std::string* text : {&credentials.access_key, &credentials.secret_key, &credentials.session_token}) {
    if (has_control_character(*text)) {
      throw UserError(fmt::format("{}: a key or token with a line break or another control character", where));
    }
  }
  if (credentials.access_key.empty() || credentials.secret_key.empty()) {
    throw UserError(fmt::format("{}: an access key without its secret key, or the other way round", where));
  }
  return credentials;
}

std::optional<Credentials> of_environment() {
  Credentials found{variable("AWS_ACCESS_KEY_ID"), variable("AWS_SECRET_ACCESS_KEY"), variable("AWS_SESSION_TOKEN")};
  if (found.access_key.empty() && found.secret_key.empty()) return std::nullopt;
  return checked(std::move(found), "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
}

std::optional<Credentials> of_profile() {
  const fs::path file = aws_file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
  const auto settings = section_of(file, profile());
  Credentials found{setting_of(settings, "aws_access_key_id"), setting_of(settings, "aws_secret_access_key"),
                    setting_of(settings, "aws_session_token")};
  if (!found.access_key.empty() || !found.secret_key.empty()) {
    return checked(std::move(found), fmt::format("profile {} of {}", profile(), file.string()));
  }
  if (!environment_variable("AWS_PROFILE")) return std::nullopt;
  throw UserError(fmt::format("{} has no profile '{}' with aws_access_key_id and aws_secret_access_key (AWS_PROFILE)",
                              file.string(), profile()));
}

// The body of a good answer. Throws CommError for others.
std::string ask(net::http::ClientRequest request) {
  std::string body;
  request.timeout = kIdentityTimeout;
  request.on_data = [&](std::string_view data) {
    body += data;
    if (body.size() > inputs::kIdentityAnswer.most_bytes) {
      refuse_size("the answer", body.size(), inputs::kIdentityAnswer);
    }
    return true;
  };
  net::http::Client client;
  const int status = client.send(request).status;
  if (status != 200) throw CommError(fmt::format("the identity endpoint answers with status {}", status));
  return body;
}

Credentials of_answer(const std::string& where, const std::string& body) {
  const Json json = parse_json(body, inputs::kIdentityAnswer);
  Credentials found{text_member(json, "AccessKeyId"), text_member(json, "SecretAccessKey"), text_member(json, "Token")};
  const std::string expires = text_member(json, "Expiration");
  if (!expires.empty()) {
    found.expires = parse_time(expires);
    if (!found.expires) throw UserError(fmt::format("{}: an expiration that is no time", where));
  }
  return checked(std::move(found), where);
}

// Only these hosts may be asked without TLS, as in Amazon's own programs: the token would be readable to others.
bool may_be_asked(const std::string& url) {
  constexpr std::array<std::string_view, 6> kHosts = {"http://169.254.170.2", "http://169.254.170.23",
                                                      "http://127.0.0.1",     "http://localhost",
                                                      "http://[::1]",         "http://[fd00:ec2::23]"};
  if (url.starts_with("https://")) return true;
  for (const std::string_view host : kHosts) {
    if (url.starts_with(host) && (url.size() == host.size() || url[host.size()] == '/' || url[host.size()] == ':')) {
      return url.find('@') == std::string::npos;
    }
  }
  return false;
}

std::optional<Credentials> of_container() {
  const std::string relative = variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
  const std::string url =
      relative.empty() ? variable("AWS_CONTAINER_CREDENTIALS_FULL_URI") : "http://169.254.170.2" + relative;
  if (url.empty()) return std::nullopt;
  if (!may_be_asked(url)) {
    throw UserError("AWS_CONTAINER_CREDENTIALS_FULL_URI: expected an https address, or an address of this host");
  }
  net::http::ClientRequest request;
  request.url = url;
  std::string token = variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");
  if (const auto file = environment_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")) {
    token = trimmed(read_file(fs::path(*file), inputs::kIdentityAnswer));
  }
  if (has_control_character(token)) throw UserError("the container's authorization token has a control character");
  if (!token.empty()) request.headers.emplace_back("Authorization", token);
  return of_answer("the container's identity endpoint", ask(std::move(request)));
}

std::optional<Credentials> of_instance() {
  if (variable("AWS_EC2_METADATA_DISABLED") == "true") return std::nullopt;
  const std::string base =
      environment_variable("AWS_EC2_METADATA_SERVICE_ENDPOINT").value_or("http://169.254.169.254") + "/latest/";
  std::string token;
  try {
    net::http::ClientRequest request;
    request.method = "PUT";
    request.url = base + "api/token";
    request.headers.emplace_back("X-aws-ec2-metadata-token-ttl-seconds", "21600");
    token = trimmed(ask(std::move(request)));
  } catch (const CommError&) {
    return std::nullopt;  // no such endpoint: this is no instance
  }
  const auto get = [&](const std::string& path) {
    net::http::ClientRequest request;
    request.url = base + path;
    if (has_control_character(token)) throw UserError("the instance's token has a control character");
    request.headers.emplace_back("X-aws-ec2-metadata-token", token);
    return ask(std::move(request));
  };
  const std::string folder = "meta-data/iam/security-credentials/";
  const std::string role = trimmed(get(folder));
  return of_answer("the instance's identity endpoint", get(folder + net::http::percent_encode(role)));
}

struct Place {
  const char* name;
  std::optional<Credentials> (*find)();
};
constexpr std::array kPlaces = {Place{"the environment", of_environment}, Place{"the profile", of_profile},
                                Place{"the container's identity endpoint", of_container},
                                Place{"the instance's identity endpoint", of_instance}};

}  // namespace

Credentials CredentialSource::get() {
  const std::lock_guard lock(mutex_);
  const auto now = std::chrono::system_clock::now();
  const auto lasts = [&](std::chrono::minutes more) {
    return credentials_ && (!credentials_->expires || *credentials_->expires > now + more);
  };
  if (lasts(kBeforeExpiry)) return *credentials_;
  try {
    for (const Place& place : kPlaces) {
      std::optional<Credentials> found = place.find();
      if (!found) continue;
      credentials_ = std::move(found);
      where_ = place.name;
      return *credentials_;
    }
  } catch (const CommError&) {
    if (!lasts({})) throw;
  }
  if (lasts({})) return *credentials_;
  throw UserError(
      fmt::format("no credentials for the object store: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write them "
                  "into profile '{}' of {}; no identity endpoint of a container or an instance answers",
                  profile(), aws_file("AWS_SHARED_CREDENTIALS_FILE", "credentials").string()));
}

std::string CredentialSource::where() const {
  const std::lock_guard lock(mutex_);
  return where_;
}

std::string profile_setting(const std::string& name) {
  const std::string section = profile() == "default" ? "default" : "profile " + profile();
  return setting_of(section_of(aws_file("AWS_CONFIG_FILE", "config"), section), name);
}

}  // namespace mlbench::objects
