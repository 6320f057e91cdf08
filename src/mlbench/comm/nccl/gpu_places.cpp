#include "mlbench/comm/nccl/gpu_places.h"

#include <fmt/format.h>

#include <map>
#include <utility>

namespace mlbench::comm::nccl_backend {

std::string why_refused(std::span<const GpuPlace> ranks) {
  std::map<std::pair<std::string, std::string>, size_t> taken;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const auto [first, fresh] = taken.emplace(std::pair{ranks[rank].host, ranks[rank].pci_bus_id}, rank);
    if (fresh) continue;
    return fmt::format(
        "ranks {} and {} are both on GPU {} of host {}, and NCCL wants one for each: start at most as many workers per "
        "host as it has GPUs, or choose --backend gloo",
        first->second, rank, ranks[rank].pci_bus_id, ranks[rank].host);
  }
  return "";
}

}  // namespace mlbench::comm::nccl_backend
