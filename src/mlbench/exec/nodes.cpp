#include "mlbench/exec/nodes.h"

#include "mlbench/base/environment.h"

namespace mlbench::exec {
namespace {

template <typename T>
Json or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

ClusterNode this_node() {
  return {.name = host_name(),
          .state = "this host",
          .ready = true,
          .cpus = available_cores(),
          .memory_bytes = host_memory_bytes(),
          .gpus = static_cast<int64_t>(capture_host(0).at("gpus").size())};
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
