#pragma once

// The nodes of an executor's cluster, as its engine reports them.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::exec {

// A node of a cluster. Members that the engine does not report are empty.
struct ClusterNode {
  std::string name;
  std::string state = {};  // in the engine's words: "Ready", "IDLE+DRAIN (disk)"
  std::optional<bool> ready = {};
  std::optional<double> cpus = {};           // for all ranks on the node together
  std::optional<int64_t> memory_bytes = {};  // for all ranks on the node together
  std::optional<int64_t> gpus = {};          // for all ranks on the node together
  std::optional<int64_t> slots = {};         // the most ranks on the node
};

struct ClusterNodes {
  std::vector<ClusterNode> nodes;
  std::string problem = {};  // why nodes, or what is known of them, are missing; "": nothing is
};

// What the nodes that take ranks have in total. A member is empty where the engine does not report it for all of these
// nodes; then the engine or a rank refuses what cannot be had.
struct HostsOffer {
  std::optional<int64_t> gpus = {};           // NVIDIA GPUs of all nodes
  std::optional<int64_t> cores = {};          // whole cores of all nodes
  std::optional<int64_t> cores_on_host = {};  // whole cores of the node that has most
};
HostsOffer offer_of(const ClusterNodes& nodes);

// The number of nodes after which an engine is asked for no more.
inline constexpr size_t kMostNodes = 5000;

// The host of this process, as a node for processes of this host.
ClusterNode this_node();

// The JSON {"nodes": [{"name", "state", "ready", "cpus", "memory_bytes", "gpus", "slots"}], "problem"}, with null for
// what is empty.
Json to_json(const ClusterNodes& nodes);

}  // namespace mlbench::exec
