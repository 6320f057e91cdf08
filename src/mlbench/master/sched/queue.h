#pragma once

// Which waiting runs may start: pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mlbench::master {

struct Cluster {
  std::string name;
  int64_t slots = 1;            // cores: one rank each
  bool oversubscribes = false;  // takes runs of any size (this machine)
};

struct Job {
  std::string name;
  int64_t workers = 1;
  bool no_wait = false;
  std::vector<std::string> hosts = {};  // that it takes for itself, by their names; none: an engine lets it wait
  int64_t cores = 0;                    // > 0: it takes so many of its one host, beside others that do the same
};

// Runs that wait with their engines at a time: each has a supervisor that asks its engine now and then.
inline constexpr int64_t kMostWithEngines = 64;

// Why a run of this size can never run there; empty when it can.
std::optional<std::string> refusal(const Cluster& cluster, int64_t workers);

// Indices of `waiting` (oldest first) that start now: those whose hosts are free, side by side where they are others'.
// Strictly in order on each host: what waits for one holds back all that came later and needs that host, so that a
// large run is never starved by small ones. Runs that share a host go together as long as it has cores; `cluster` says
// how many (this host). A run that asks not to wait starts at once and holds back nobody.
std::vector<size_t> startable(const Cluster& cluster, const std::vector<Job>& running, const std::vector<Job>& waiting);

}  // namespace mlbench::master
