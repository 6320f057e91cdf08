#include "mlbench/cli/clusters.h"

#include <fmt/format.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {
fs::path file_of(const fs::path& home) { return home / "clusters.json"; }
}  // namespace

Clusters read_clusters(const fs::path& home) {
  Clusters clusters;
  if (!fs::exists(file_of(home))) return clusters;
  try {
    const Json json = read_json_file(file_of(home), inputs::kClusters);
    for (const auto& [name, one] : json.at("clusters").items()) {
      clusters.known[name] = {one.at("url"), one.at("token_file"), one.value("certificate", "")};
    }
    clusters.current = json.value("current", "");
  } catch (const IoError&) {
    throw;
  } catch (const std::exception& error) {
    throw UserError(fmt::format("{} is damaged ({}): remove it, and name the clusters again with 'mlbench set-cluster'",
                                file_of(home).string(), error.what()));
  }
  if (!clusters.known.contains(clusters.current)) clusters.current.clear();
  return clusters;
}

void write_clusters(const fs::path& home, const Clusters& clusters) {
  Json json = {{"current", clusters.current}, {"clusters", Json::object()}};
  for (const auto& [name, one] : clusters.known) {
    json["clusters"][name] = {{"url", one.url}, {"token_file", one.token_file}};
    if (!one.certificate.empty()) json["clusters"][name]["certificate"] = one.certificate;
  }
  std::error_code error;
  fs::create_directories(home, error);
  if (error) throw IoError(fmt::format("cannot create {}: {}", home.string(), error.message()));
  write_json_file(file_of(home), json);
}

std::optional<Cluster> current_cluster(const fs::path& home) {
  const Clusters clusters = read_clusters(home);
  const auto found = clusters.known.find(clusters.current);
  if (found == clusters.known.end()) return std::nullopt;
  return found->second;
}

}  // namespace mlbench::cli
