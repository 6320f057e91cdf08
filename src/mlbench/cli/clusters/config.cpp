#include "mlbench/cli/clusters/config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/ini.h"
#include "mlbench/base/input.h"
#include "mlbench/cli/context.h"
#include "mlbench/spec/toml_document.h"

namespace mlbench::cli {

namespace fs = std::filesystem;

namespace {

constexpr std::pair<const char*, std::string Cluster::*> kTexts[] = {{"url", &Cluster::url},
                                                                     {"token_file", &Cluster::token_file},
                                                                     {"certificate", &Cluster::certificate},
                                                                     {"home", &Cluster::home},
                                                                     {"hosts", &Cluster::hosts},
                                                                     {"ssh_config", &Cluster::ssh_config},
                                                                     {"interface", &Cluster::interface},
                                                                     {"scratch", &Cluster::scratch},
                                                                     {"setup", &Cluster::setup},
                                                                     {"kubeconfig", &Cluster::kubeconfig},
                                                                     {"context", &Cluster::context},
                                                                     {"namespace", &Cluster::name_space},
                                                                     {"release", &Cluster::release},
                                                                     {"zone", &Cluster::zone},
                                                                     {"project", &Cluster::project},
                                                                     {"registry", &Cluster::registry}};

fs::path file_of(const fs::path& home) { return home / "clusters.toml"; }

Cluster cluster_from_json(const Json& json) {
  Cluster cluster;
  cluster.provider = json.at("provider").get<std::string>();
  cluster.nodes = json.value("nodes", int64_t{0});
  cluster.incomplete = json.value("incomplete", false);
  cluster.slurm = json.value("slurm", std::vector<std::string>());
  for (const auto& [key, member] : kTexts) cluster.*member = json.value(key, "");
  return cluster;
}

Clusters clusters_from_json(const Json& json) {
  Clusters clusters;
  const Json none = Json::object();
  const auto known = json.find("clusters");
  for (const auto& [name, one] : (known == json.end() ? none : *known).items()) {
    clusters.known[name] = cluster_from_json(one);
  }
  clusters.current = json.value("current", "");
  if (!clusters.known.contains(clusters.current)) clusters.current.clear();
  return clusters;
}

// Turns all errors of `read` but IoError into a UserError that says what to do.
template <typename Read>
Clusters read_or_explain(const fs::path& file, const Read& read) {
  try {
    return read();
  } catch (const IoError&) {
    throw;
  } catch (const std::exception& error) {
    throw UserError(fmt::format("{} is damaged ({}): remove it, and name the clusters again with 'mlbench set-cluster'",
                                file.string(), error.what()));
  }
}

// Writes the clusters and says so. A home that cannot be written is no error: the next call reads mlbench.ini again.
void keep(const fs::path& home, const Clusters& clusters, const std::string& said) {
  try {
    write_clusters(home, clusters);
    say(said);
  } catch (const IoError&) {
  }
}

std::string cluster_names(const Clusters& clusters) {
  std::vector<std::string> names;
  for (const auto& [name, one] : clusters.known) names.push_back(name);
  return names.empty() ? "no clusters" : fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Json to_json(const Cluster& cluster) {
  Json json = {{"provider", cluster.provider}};
  if (cluster.nodes > 0) json["nodes"] = cluster.nodes;
  if (cluster.incomplete) json["incomplete"] = true;
  for (const auto& [key, member] : kTexts) {
    if (!(cluster.*member).empty()) json[key] = cluster.*member;
  }
  if (!cluster.slurm.empty()) json["slurm"] = cluster.slurm;
  return json;
}

Clusters clusters_of_ini(const std::string& text) {
  // MLBench's names of providers, and the names of the same providers here.
  const std::map<std::string, std::string, std::less<>> providers = {
      {"gke", "gcloud"}, {"aws", "aws"}, {"kind", "kind"}};
  Clusters clusters;
  for (const IniSection& section : parse_ini(text)) {
    const size_t dot = section.name.find('.');
    if (dot == std::string::npos || dot + 1 == section.name.size()) continue;
    const auto provider = providers.find(section.name.substr(0, dot));
    if (provider == providers.end()) continue;
    Cluster& cluster = clusters.known[section.name.substr(dot + 1)];
    cluster.provider = provider->second;
    for (const auto& [key, value] : section.settings) {
      if (key == "zone") cluster.zone = value;
      if (key == "project") cluster.project = value;
      if (key == "registry_name") cluster.registry = value;
    }
  }
  return clusters;
}

Clusters read_clusters(const fs::path& home) {
  const fs::path file = file_of(home), before = home / "clusters.json", ini = home / "mlbench.ini";
  if (fs::exists(file)) {
    return read_or_explain(file, [&] {
      return clusters_from_json(
          spec::read_toml(file.string(), read_file(file, inputs::kClusters), inputs::kClusters).root);
    });
  }
  if (fs::exists(before)) {
    throw UserError(
        fmt::format("{} is of a development version; this program reads clusters.toml: remove it, and name "
                    "the clusters again with 'mlbench set-cluster'",
                    before.string()));
  }
  if (fs::exists(ini)) {
    const Clusters clusters = read_or_explain(ini, [&] { return clusters_of_ini(read_file(ini, inputs::kClusters)); });
    keep(home, clusters,
         fmt::format("of MLBench's {}, now in {}: {}. They have MLBench's dashboard, which takes no runs of this "
                     "program: 'mlbench delete-cluster' removes them",
                     ini.string(), file.string(), cluster_names(clusters)));
    return clusters;
  }
  return {};
}

void write_clusters(const fs::path& home, const Clusters& clusters) {
  Json json = {{"current", clusters.current}, {"clusters", Json::object()}};
  for (const auto& [name, one] : clusters.known) json["clusters"][name] = to_json(one);
  make_folder(home);
  write_file_atomically(file_of(home), spec::to_toml(json));
}

std::optional<std::pair<std::string, Cluster>> current_cluster(const fs::path& home) {
  const Clusters clusters = read_clusters(home);
  const auto found = clusters.known.find(clusters.current);
  if (found == clusters.known.end()) return std::nullopt;
  return std::pair{found->first, found->second};
}

fs::path cluster_folder(const fs::path& home, const std::string& name) { return home / "clusters" / name; }

}  // namespace mlbench::cli
