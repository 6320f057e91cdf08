#pragma once

// Where each rank's GPU is.

#include <span>
#include <string>

namespace mlbench::comm::nccl_backend {

struct GpuPlace {
  std::string host;
  std::string pci_bus_id;  // "0000:3B:00.0": identifies one GPU of the host, whatever number programs give it
};

// Why `ranks`, in the order of their numbers, cannot form a group: two of them share a GPU. "" where each has its own.
std::string why_refused(std::span<const GpuPlace> ranks);

}  // namespace mlbench::comm::nccl_backend
