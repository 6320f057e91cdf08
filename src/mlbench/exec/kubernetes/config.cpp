#include "mlbench/exec/kubernetes/config.h"

#include <fmt/format.h>

#include <vector>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/text.h"
#include "mlbench/exec/kubernetes/yaml.h"

namespace mlbench::exec::kubernetes {
namespace {

namespace fs = std::filesystem;

std::string decoded(const std::string& text, const std::string& what) {
  std::string bytes;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=' || c == '\n' || c == '\r') continue;
    const std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const size_t digit = digits.find(c);
    if (digit == std::string_view::npos) throw UserError(fmt::format("{} is no base64", what));
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xff);
  }
  return bytes;
}

// The content of the member KEY-data of `object`, or of the file that its member KEY names.
std::string pem_of(const Json& object, const std::string& key, const fs::path& folder, const std::string& file) {
  const std::string data = text_member(object, (key + "-data").c_str());
  if (!data.empty()) return decoded(data, fmt::format("{}: {}-data", file, key));
  const std::string path = text_member(object, key.c_str());
  return path.empty() ? "" : read_file(folder / path, inputs::kKubeConfig);
}

// The member called `name` of a list of {"name", KEY: {...}}.
Json named(const Json& config, const char* list, const char* key, const std::string& name, const std::string& file) {
  std::vector<std::string> names;
  const auto found = config.find(list);
  if (found != config.end() && found->is_array()) {
    for (const Json& one : *found) {
      names.push_back(text_member(one, "name"));
      if (names.back() != name) continue;
      const auto inner = one.find(key);
      return inner != one.end() && inner->is_object() ? *inner : Json(Json::object());
    }
  }
  throw UserError(fmt::format("{}: {}", file, unknown_text(key, name, names)));
}

void set_user(Cluster& cluster, const Json& user, const fs::path& folder, const std::string& file) {
  for (const char* key : {"exec", "auth-provider"}) {
    if (!user.contains(key)) continue;
    throw UserError(fmt::format(
        "{}: '{}' takes its credentials from another program ({}), which mlbench starts not: start `kubectl proxy`, "
        "which does, and name its address as a cluster: kubectl config set-cluster proxy --server "
        "http://127.0.0.1:8001; kubectl config set-context proxy --cluster proxy; then --kube-context proxy",
        file, cluster.from, key));
  }
  cluster.certificate = pem_of(user, "client-certificate", folder, file);
  cluster.key = pem_of(user, "client-key", folder, file);
  cluster.token = text_member(user, "token");
  if (const std::string path = text_member(user, "tokenFile"); cluster.token.empty() && !path.empty()) {
    cluster.token_file = folder / path;
  }
}

std::optional<Cluster> service_account(const Surroundings& here) {
  const auto host = here.variable("KUBERNETES_SERVICE_HOST");
  const fs::path token = here.account / "token";
  if (!host || !fs::exists(token)) return std::nullopt;
  Cluster cluster;
  const std::string port = here.variable("KUBERNETES_SERVICE_PORT").value_or("443");
  const bool ipv6 = host->find(':') != std::string::npos;
  cluster.server = fmt::format("https://{}:{}", ipv6 ? "[" + *host + "]" : *host, port);
  cluster.authority = read_file(here.account / "ca.crt", inputs::kKubeConfig);
  cluster.token_file = token;
  cluster.name_space = trimmed(read_file(here.account / "namespace", inputs::kToken));
  cluster.from = "the service account of this pod";
  cluster.around_us = true;
  return cluster;
}

fs::path kubeconfig_path(const Surroundings& here) {
  if (const auto paths = here.variable("KUBECONFIG")) return paths->substr(0, paths->find(':'));
  return fs::path(here.variable("HOME").value_or("/")) / ".kube" / "config";
}

}  // namespace

Surroundings own_surroundings() {
  return {.variable = [](const char* name) { return environment_variable(name); }};
}

Cluster cluster_of(const Json& config, const std::string& context, const fs::path& file) {
  const std::string path = file.string();
  if (!config.is_object()) throw UserError(fmt::format("{}: it is no kubeconfig", path));
  const std::string name = context.empty() ? text_member(config, "current-context") : context;
  if (name.empty()) {
    throw UserError(fmt::format(
        "{}: it has no current context: choose one with kubectl config use-context NAME, or with --kube-context",
        path));
  }
  const fs::path folder = file.parent_path();
  const Json chosen = named(config, "contexts", "context", name, path);
  const Json server = named(config, "clusters", "cluster", text_member(chosen, "cluster"), path);
  Cluster cluster;
  cluster.from = fmt::format("context '{}' of {}", name, path);
  cluster.server = text_member(server, "server");
  while (cluster.server.ends_with('/')) cluster.server.pop_back();
  if (!cluster.server.starts_with("https://") && !cluster.server.starts_with("http://")) {
    throw UserError(
        fmt::format("{}: {} has the server '{}'; expected https://HOST:PORT", path, cluster.from, cluster.server));
  }
  if (!text_member(server, "proxy-url").empty()) {
    throw UserError(fmt::format("{}: {} is behind a proxy (proxy-url), which is not supported", path, cluster.from));
  }
  cluster.name_space = text_member(chosen, "namespace");
  if (cluster.name_space.empty()) cluster.name_space = "default";
  cluster.authority = pem_of(server, "certificate-authority", folder, path);
  cluster.insecure = server.value("insecure-skip-tls-verify", Json(false)) == Json(true);
  if (const std::string user = text_member(chosen, "user"); !user.empty()) {
    set_user(cluster, named(config, "users", "user", user, path), folder, path);
  }
  return cluster;
}

Cluster find_cluster(const std::string& context, const Surroundings& here) {
  if (context.empty() && !here.variable("KUBECONFIG")) {
    if (auto account = service_account(here)) return *account;
  }
  const fs::path file = kubeconfig_path(here);
  if (!fs::exists(file)) {
    throw UserError(fmt::format(
        "no Kubernetes is known here: there is no kubeconfig at {} (another: KUBECONFIG=FILE), and this is no pod with "
        "a service account",
        file.string()));
  }
  return cluster_of(parse_yaml(read_file(file, inputs::kKubeConfig), inputs::kKubeConfig, file.string()), context,
                    file);
}

}  // namespace mlbench::exec::kubernetes
