#pragma once

// Which waiting runs may start: pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mlbench::master {

struct Cluster {
  std::string name;
  int64_t slots = 1;            // one rank each
  bool oversubscribes = false;  // takes runs of any size, one at a time unless they ask not to wait (this machine)
};

struct Job {
  std::string name;
  int64_t workers = 1;
  bool no_wait = false;
};

// Why a run of this size can never run there; empty when it can.
std::optional<std::string> refusal(const Cluster& cluster, int64_t workers);

// Indices of `waiting` (oldest first) that start now. Strictly in order: what does not fit holds back all that came
// later, so that a large run is never starved by small ones. Where runs may oversubscribe, one that asks not to wait
// starts at once and holds back nobody.
std::vector<size_t> startable(const Cluster& cluster, const std::vector<Job>& running, const std::vector<Job>& waiting);

}  // namespace mlbench::master
