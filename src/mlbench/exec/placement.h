#pragma once

// Where the ranks of a run run, as their executor chose.

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
  int local_rank = 0;           // among the ranks of its host
  std::vector<int> cores = {};  // that it may use, ascending; empty: the executor does not know
  std::optional<int> gpu = {};  // its number on the host; empty: the executor gave none
};

// The cores of its host that a rank may use.
struct CoreShare {
  std::string host = {};
  std::vector<int> numbers = {};  // empty: not known
  int64_t at_a_time = 1;          // fewer than these where a container has a quota
};
// Of all these ranks; those of one host share what several may use.
int64_t cores_together(std::span<const CoreShare> shares);

// By a host's name alone, without a look-up: "localhost", or a number of the loopback.
bool is_loopback(const std::string& name);
// The same, or as this host calls itself.
bool is_this_host(const std::string& name);

// What a host that takes part says of itself.
struct HostCapture {
  std::string name = {};  // as in Placement
  Json host = {};         // capture_host() of base/environment.h, there
  Json environment = {};  // capture_environment(), there
};

// "0-3,8" as the kernel writes it; "" for none. `cores` ascend.
std::string core_list(std::span<const int> cores);

// The record's `placement`: [{rank, host, local_rank, cores|null, gpu|null}] in the order given.
Json to_json(std::span<const Placement> placement);

// The record's `hosts`: those of the placement, each once, in the order of their first rank. `own` is the supervisor's;
// of a host that nobody captured, the name. Each carries its `environment`, unless it is the supervisor's and alone.
Json hosts_of(std::span<const Placement> placement, std::span<const HostCapture> captures, const HostCapture& own);

}  // namespace mlbench::exec
