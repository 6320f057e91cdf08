#pragma once

// The clusters to which this user gave names: HOME/clusters.toml. Runs go to the chosen cluster, and verbs talk to it,
// unless -u names another master.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::cli {

// The provider of a master elsewhere, to which set-cluster -u gave a name; create-cluster makes none.
inline constexpr const char* kMaster = "master";

struct Cluster {
  std::string provider;     // a row of provider.h, or kMaster
  int64_t nodes = 0;        // 0: not known
  bool incomplete = false;  // the cluster is being made, or making it failed half way
  // kMaster: the address, the absolute path of its token, and that of its certificate, where no known authority signed
  // it. Clusters in Kubernetes have a token_file, too.
  std::string url = {}, token_file = {}, certificate = {};
  std::string home = {};  // local: the home that the cluster's master serves
  // hosts and slurm: defaults for the options of runs. `setup` is the absolute path of a file on this host.
  std::string hosts = {}, ssh_config = {}, interface = {}, scratch = {}, setup = {};
  std::vector<std::string> slurm = {};
  // In Kubernetes: options for kubectl ("": its own defaults), and the release of the chart ("": not installed).
  std::string kubeconfig = {}, context = {}, name_space = {}, release = {};
  std::string zone = {}, project = {}, registry = {};  // of gcloud (of aws: the region); of gcloud; of kind
  bool operator==(const Cluster&) const = default;
};

struct Clusters {
  std::map<std::string, Cluster> known;
  std::string current;  // a key of `known`; empty: this home
  bool operator==(const Clusters&) const = default;
};

// Reads HOME/clusters.toml. Where it does not exist, takes over the clusters of MLBench's HOME/mlbench.ini and says so,
// or knows none. Throws UserError for a damaged file, and for a HOME/clusters.json without a clusters.toml.
Clusters read_clusters(const std::filesystem::path& home);
void write_clusters(const std::filesystem::path& home, const Clusters& clusters);
// The chosen cluster with its name; empty: this home.
std::optional<std::pair<std::string, Cluster>> current_cluster(const std::filesystem::path& home);

// The folder for files of a cluster: kubeconfig, token, home. It may not exist yet.
std::filesystem::path cluster_folder(const std::filesystem::path& home, const std::string& name);

// The members of a cluster that are set, by their keys in HOME/clusters.toml.
Json to_json(const Cluster& cluster);

// The clusters in the text of MLBench's mlbench.ini, which only delete-cluster can use. Unknown lines are ignored.
Clusters clusters_of_ini(const std::string& text);

}  // namespace mlbench::cli
