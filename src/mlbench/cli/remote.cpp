#include "mlbench/cli/remote.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>

#include "mlbench/base/atomic_file.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/input.h"
#include "mlbench/cli/clusters/port_forward.h"
#include "mlbench/home/owner.h"
#include "mlbench/report/figures.h"

namespace mlbench::cli {

namespace {

constexpr std::chrono::seconds kTimeout{60};

}  // namespace

std::string whole_url(std::string given) {
  while (given.ends_with('/')) given.pop_back();
  return given.find("://") == std::string::npos ? "http://" + given : given;
}

MasterClient::MasterClient(std::string url, std::string token, std::string certificate, bool elsewhere)
    : url_(std::move(url)),
      token_(std::move(token)),
      certificate_(std::move(certificate)),
      elsewhere_(elsewhere),
      client_(std::make_unique<net::http::Client>()) {}

MasterClient::MasterClient(std::shared_ptr<PortForward> way, std::string token)
    : MasterClient(way->url(), std::move(token), "", true) {
  way_ = std::move(way);
}

net::http::ClientResponse MasterClient::send(net::http::ClientRequest request, const std::string& path) const {
  if (way_) way_->keep_open();
  request.url = url_ + "/api/v1" + path;
  request.headers.emplace_back("Authorization", "Bearer " + token_);
  request.timeout = request.on_data ? std::chrono::milliseconds(0) : kTimeout;
  request.silence = kTimeout;
  request.certificate = certificate_;
  std::string content;
  const auto collect = [&](std::string_view part) {
    if (content.size() + part.size() > inputs::kArchive.most_bytes) {
      throw CommError(fmt::format("{} sends more than {} bytes in one answer", url_, inputs::kArchive.most_bytes));
    }
    content += part;
    return true;
  };
  if (!request.on_data) request.on_data = collect;
  net::http::ClientResponse response = client_->send(request);
  if (response.status >= 200 && response.status < 300) {
    response.body = std::move(content);
    return response;
  }
  const Json body = try_parse_json(response.body, inputs::kMasterAnswer).value_or(nullptr);
  const std::string message = body.is_object() ? report::text(body, "/message") : response.body.substr(0, 200);
  const std::string text = fmt::format("{} (answer {} of {})", message, response.status, url_);
  if (response.status >= 500) throw CommError(text);
  throw UserError(text);
}

namespace {
Json parsed(const net::http::ClientResponse& response, const std::string& url) {
  auto json = try_parse_json(response.body, inputs::kMasterAnswer);
  if (!json) throw CommError(fmt::format("{} answers, but not as a master of mlbench does", url));
  return std::move(*json);
}
}  // namespace

Json MasterClient::get(const std::string& path) const { return parsed(send({}, path), url_); }

namespace {
net::http::ClientRequest with_body(const char* method, const Json& body) {
  net::http::ClientRequest request;
  request.method = method;
  request.body = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  return request;
}
}  // namespace

Json MasterClient::post(const std::string& path, const Json& body) const {
  return parsed(send(with_body("POST", body), path), url_);
}

Json MasterClient::put(const std::string& path, const Json& body) const {
  return parsed(send(with_body("PUT", body), path), url_);
}

void MasterClient::remove(const std::string& path) const {
  net::http::ClientRequest request;
  request.method = "DELETE";
  send(std::move(request), path);
}

std::string MasterClient::get_bytes(const std::string& path) const { return send({}, path).body; }

net::http::ClientResponse MasterClient::get_answer(const std::string& path) const { return send({}, path); }

void MasterClient::get_file(const std::string& path, const std::filesystem::path& file) const {
  AtomicFile out(file);
  net::http::ClientRequest request;
  request.on_data = [&](std::string_view bytes) {
    out.write(bytes);
    return true;
  };
  send(std::move(request), path);
  out.commit();
}

std::string header_of(const net::http::ClientResponse& answer, std::string_view name) {
  const auto same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
  };
  for (const auto& [given, value] : answer.headers) {
    if (std::ranges::equal(given, name, same)) return value;
  }
  return "";
}

std::string path_of_run(const std::string& name) { return "/runs/" + net::http::percent_encode(name); }

void add_master_options(CLI::App& verb, Program& program) {
  verb.add_option("-u,--url,--dashboard-url", program.context.url_option,
                  "a master elsewhere (default: the one of set-cluster, or else of this home)")
      ->type_name("URL")
      ->group("Master");
  verb.add_option("--token-file", program.context.token_file_option, "its token (default: HOME/token)")
      ->type_name("FILE")
      ->group("Master");
}

std::optional<MasterClient> master_of(const std::string& name, const Cluster& cluster) {
  if (cluster.incomplete) {
    throw UserError(fmt::format("cluster {} is not complete: 'mlbench delete-cluster {} {}', and create it again", name,
                                cluster.provider, name));
  }
  if (cluster.provider == kMaster) {
    return MasterClient(cluster.url, home::read_token(cluster.token_file), cluster.certificate, true);
  }
  if (!cluster.home.empty()) {
    const auto address = home::find_master(cluster.home);
    if (!address) {
      throw UserError(
          fmt::format("the master of cluster {} does not run: 'mlbench set-cluster {}' starts it", name, name));
    }
    return MasterClient(address->url, home::read_token(address->token_file), address->certificate, true);
  }
  if (!cluster.release.empty()) {
    return MasterClient(std::make_shared<PortForward>(cluster), home::read_token(cluster.token_file));
  }
  if (cluster.provider == "hosts" || cluster.provider == "slurm") return std::nullopt;
  throw UserError(
      fmt::format("cluster {} was made by MLBench's own command line, and takes no runs of this one: "
                  "'mlbench delete-cluster {} {}', and 'mlbench create-cluster' makes another",
                  name, cluster.provider, name));
}

std::optional<MasterClient> given_master(const Context& context) {
  if (!context.url_option) {
    if (context.token_file_option) throw UserError("--token-file belongs to -u URL");
    const auto chosen = current_cluster(context.home_to_read());
    return chosen ? master_of(chosen->first, chosen->second) : std::nullopt;
  }
  const auto file = context.token_file_option ? std::filesystem::path(*context.token_file_option)
                                              : home::default_token_file(context.home_to_read());
  return MasterClient(whole_url(*context.url_option), home::read_token(file), "", true);
}

std::optional<MasterClient> find_master(const Context& context) {
  if (auto given = given_master(context)) return given;
  const auto address = home::find_master(context.home_to_read());
  if (!address) return std::nullopt;
  return MasterClient(address->url, home::read_token(address->token_file), address->certificate, false);
}

MasterClient the_master(const Context& context) {
  if (auto found = find_master(context)) return std::move(*found);
  throw UserError(fmt::format(
      "No Cluster config found: no master serves {}; start one with 'mlbench serve', or name one with -u URL",
      context.home_to_read().string()));
}

}  // namespace mlbench::cli
