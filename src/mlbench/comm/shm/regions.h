#pragma once

// Memory that a group's ranks compute in and that all of them see: reductions use it in place.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/comm/shm/group.h"

namespace mlbench::comm::shm_backend {

// Where something lies, told to other ranks. Regions are numbered alike at all of them.
struct Place {
  int64_t region = -1;  // -1: in none
  uint64_t offset = 0;  // within it
};

// One rank's mappings of the group's regions. A region has one part per rank, and stays mapped as long as this rank
// uses its own part.
class Regions {
 public:
  // Collective. This rank's part of a new region: zeroed, aligned to a page. `run` goes into its name (segment.h).
  // CommError if a rank finds no room.
  std::shared_ptr<std::byte> allocate(Group& group, const std::string& run, size_t bytes);

  // Of [data, data + bytes): its place, if it lies in this rank's part of a region.
  Place place_of(const std::byte* data, size_t bytes) const;
  // What place_of() gave at any rank. The region is one of which this rank uses its part.
  std::byte* address_of(const Place& place, size_t bytes) const;

 private:
  struct Region;
  std::vector<std::weak_ptr<const Region>> regions_;
};

}  // namespace mlbench::comm::shm_backend
