#pragma once

// Which GPU each rank has.

#include <span>
#include <string>

namespace mlbench::comm::nccl_backend {

struct GpuPlace {
  std::string host;
  std::string pci_bus_id;  // "0000:3B:00.0": one GPU of the host, by whatever number programs call it
};

// Why these ranks cannot form a group, by rank: two of them on one GPU. "" where each has its own.
std::string why_refused(std::span<const GpuPlace> ranks);

}  // namespace mlbench::comm::nccl_backend
