#pragma once

// The nodes of an executor's cluster, as its engine tells of them.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::exec {

// What the engine does not tell is empty.
struct ClusterNode {
  std::string name;
  std::string state = {};  // in the engine's words: "Ready", "IDLE+DRAIN (disk)"
  std::optional<bool> ready = {};
  std::optional<double> cpus = {};           // that ranks may have, all together
  std::optional<int64_t> memory_bytes = {};  // likewise
  std::optional<int64_t> gpus = {};          // likewise
  std::optional<int64_t> slots = {};         // most ranks
};

struct ClusterNodes {
  std::vector<ClusterNode> nodes;
  std::string problem = {};  // why these are not all, or are not known further; "": these are all
};

// What the nodes that take ranks have for them. What the engine does not tell of all of them is empty: who asks for it
// learns it from the engine or from a rank.
struct HostsOffer {
  std::optional<int64_t> gpus = {};           // NVIDIA's, of all nodes
  std::optional<int64_t> cores = {};          // whole ones, of all nodes
  std::optional<int64_t> cores_on_host = {};  // the most that one of them has
};
HostsOffer offer_of(const ClusterNodes& nodes);

// More are not asked for.
inline constexpr size_t kMostNodes = 5000;

// The host of this process, as it is to processes of its own.
ClusterNode this_node();

// {"nodes": [{"name", "state", "ready", "cpus", "memory_bytes", "gpus", "slots"}], "problem"}; null for what is empty.
Json to_json(const ClusterNodes& nodes);

}  // namespace mlbench::exec
