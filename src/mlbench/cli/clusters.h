#pragma once

// Masters elsewhere that this user gave names to: HOME/clusters.json. The chosen one is what verbs talk to when no -u
// says otherwise.

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace mlbench::cli {

struct Cluster {
  std::string url;
  std::string token_file;   // absolute
  std::string certificate;  // of a server that no known authority vouches for; may be empty
};

struct Clusters {
  std::map<std::string, Cluster> known;
  std::string current;  // a key of `known`; empty: this home
};

// Nothing known where there is no file; UserError for a damaged one.
Clusters read_clusters(const std::filesystem::path& home);
void write_clusters(const std::filesystem::path& home, const Clusters& clusters);
std::optional<Cluster> current_cluster(const std::filesystem::path& home);

}  // namespace mlbench::cli
