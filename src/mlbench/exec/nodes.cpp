#include "mlbench/exec/nodes.h"

#include <algorithm>

#include "mlbench/base/environment.h"
#include "mlbench/base/gpus.h"
#include "mlbench/base/or_null.h"

namespace mlbench::exec {

ClusterNode this_node() {
  return {.name = host_name(),
          .state = "this host",
          .ready = true,
          .cpus = available_cores(),
          .memory_bytes = host_memory_bytes(),
          .gpus = std::ssize(visible_gpus())};
}

HostsOffer offer_of(const ClusterNodes& nodes) {
  if (nodes.nodes.empty() || !nodes.problem.empty()) return {};
  HostsOffer offer{.gpus = 0, .cores = 0, .cores_on_host = 0};
  for (const ClusterNode& node : nodes.nodes) {
    if (node.ready == false) continue;
    offer.gpus = node.gpus && offer.gpus ? std::optional(*offer.gpus + *node.gpus) : std::nullopt;
    if (!node.cpus || !offer.cores) {
      offer.cores = offer.cores_on_host = std::nullopt;
      continue;
    }
    const auto cores = static_cast<int64_t>(*node.cpus);
    offer.cores = *offer.cores + cores;
    offer.cores_on_host = std::max(*offer.cores_on_host, cores);
  }
  return offer;
}

Json to_json(const ClusterNodes& nodes) {
  Json list = Json::array();
  for (const ClusterNode& node : nodes.nodes) {
    list.push_back({{"name", node.name},
                    {"state", node.state},
                    {"ready", or_null(node.ready)},
                    {"cpus", or_null(node.cpus)},
                    {"memory_bytes", or_null(node.memory_bytes)},
                    {"gpus", or_null(node.gpus)},
                    {"slots", or_null(node.slots)}});
  }
  return {{"nodes", std::move(list)}, {"problem", nodes.problem.empty() ? Json() : Json(nodes.problem)}};
}

}  // namespace mlbench::exec
