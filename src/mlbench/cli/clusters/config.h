#pragma once

// Clusters that this user gave names to: HOME/clusters.toml. The chosen one is where runs go, and what verbs talk to
// when no -u says otherwise.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::cli {

// The provider of a master elsewhere, which set-cluster -u named and nobody here made.
inline constexpr const char* kMaster = "master";

struct Cluster {
  std::string provider;     // a row of provider.h, or kMaster
  int64_t nodes = 0;        // 0: not said
  bool incomplete = false;  // it is being made, or that failed half way
  // Of a master: its address, an absolute path, and the certificate of one that no known authority vouches for.
  std::string url = {}, token_file = {}, certificate = {};
  std::string home = {};  // local: the home that its master serves
  // hosts and slurm: defaults of the options of runs. `setup` is the absolute path of a file here.
  std::string hosts = {}, ssh_config = {}, interface = {}, scratch = {}, setup = {};
  std::vector<std::string> slurm = {};
  // In Kubernetes: how kubectl gets there ("": its own defaults), and where the chart is. No release: there is none.
  std::string kubeconfig = {}, context = {}, name_space = {}, release = {};
  std::string zone = {}, project = {}, registry = {};  // gcloud (aws: the region), gcloud, kind
  bool operator==(const Cluster&) const = default;
};

struct Clusters {
  std::map<std::string, Cluster> known;
  std::string current;  // a key of `known`; empty: this home
  bool operator==(const Clusters&) const = default;
};

// Nothing known where there is no file; UserError for a damaged one, and for a HOME/clusters.json without it. The first
// call in a home that has neither takes over what MLBench's HOME/mlbench.ini holds, and says so.
Clusters read_clusters(const std::filesystem::path& home);
void write_clusters(const std::filesystem::path& home, const Clusters& clusters);
// The chosen one with its name; empty: this home.
std::optional<std::pair<std::string, Cluster>> current_cluster(const std::filesystem::path& home);

// Files that belong to it here: kubeconfig, token, home. Not made yet.
std::filesystem::path cluster_folder(const std::filesystem::path& home, const std::string& name);

// What is set of it, by the keys of the file.
Json to_json(const Cluster& cluster);

// The clusters that MLBench's mlbench.ini names; they are known for delete-cluster alone. UserError for what is none.
Clusters clusters_of_ini(const std::string& text);

}  // namespace mlbench::cli
