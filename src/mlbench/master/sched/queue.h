#pragma once

// Decides which waiting runs may start. Its functions are pure.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mlbench::master {

struct Cluster {
  std::string name;
  int64_t slots = 1;            // cores, with one rank each
  bool oversubscribes = false;  // takes runs of any size, as this machine does
};

struct Job {
  std::string name;
  int64_t workers = 1;
  bool no_wait = false;
  std::vector<std::string> hosts = {};  // hosts that it occupies, by name; empty: its engine finds hosts for it
  int64_t cores = 0;                    // if positive: cores that it takes of its one host, beside other such runs
};

// How many runs may wait with their engines at a time: each has a supervisor that asks its engine now and then.
inline constexpr int64_t kMostWithEngines = 64;

// Why a run with so many workers can never run there; empty where it can.
std::optional<std::string> refusal(const Cluster& cluster, int64_t workers);

// Indices of the jobs in `waiting` (oldest first) that start now: those whose hosts are free. The order is strict on
// each host: a waiting job holds back all later ones that need one of its hosts, so that small runs never starve a
// large one. Jobs that share a host (`cores` > 0) run together while it has cores; `cluster` says how many (this host).
// A job with `no_wait` starts at once and holds back none.
std::vector<size_t> startable(const Cluster& cluster, const std::vector<Job>& running, const std::vector<Job>& waiting);

}  // namespace mlbench::master
