#pragma once

// Where the ranks of a run are, as their executor chose.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::exec {

struct Placement {
  std::string host = {};
  int rank = 0;
  int local_rank = 0;           // the rank's number among the ranks of its host
  std::vector<int> cores = {};  // those that the rank may use, ascending; empty: not known
  std::optional<int> gpu = {};  // the GPU's number on the host; empty: the executor gave none
};

// The cores of its host that a rank may use.
struct CoreShare {
  std::string host = {};
  std::vector<int> numbers = {};  // empty: not known
  int64_t at_a_time = 1;          // how many may be busy at a time: fewer where a container has a quota
};
// The number of cores that these ranks may keep busy together. Cores that several ranks of one host may use count once.
int64_t cores_together(std::span<const CoreShare> shares);

// Whether `name` is "localhost" or an address of the loopback. Looks up nothing.
bool is_loopback(const std::string& name);
// Whether is_loopback(name), or `name` is the one by which this host calls itself.
bool is_this_host(const std::string& name);

// What a host with ranks, or the supervisor's host, says of itself.
struct HostCapture {
  std::string name = {};  // as in Placement::host
  Json host = {};         // capture_host() on that host (base/environment.h)
  Json environment = {};  // capture_environment() on that host
};

// The cores as the kernel writes lists, "0-3,8"; "" for none. Precondition: `cores` ascend.
std::string core_list(std::span<const int> cores);

// The record's `placement`: [{rank, host, local_rank, cores|null, gpu|null}] in the order given.
Json to_json(std::span<const Placement> placement);

// The record's `hosts`: the hosts of `placement`, each once, in the order of their first rank. `own` describes the
// supervisor's host; a host that nobody captured has only its name. Each host has its `environment`, unless the
// supervisor's host is the only one.
Json hosts_of(std::span<const Placement> placement, std::span<const HostCapture> captures, const HostCapture& own);

}  // namespace mlbench::exec
