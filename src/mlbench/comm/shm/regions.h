#pragma once

// Memory in which a group's ranks compute and which all of them see: reductions use it in place.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/comm/shm/group.h"

namespace mlbench::comm::shm_backend {

// Where something lies, in a form that other ranks understand. All ranks number regions alike.
struct Place {
  int64_t region = -1;  // -1: in no region
  uint64_t offset = 0;  // within the region
};

// One rank's mappings of the group's regions. A region has one part per rank, and stays mapped as long as this rank
// uses its own part.
class Regions {
 public:
  // Makes a new region and returns this rank's part: zeroed, aligned to a page. Collective. `run` becomes part of the
  // region's name (segment.h). Throws CommError if a rank finds no room.
  std::shared_ptr<std::byte> allocate(Group& group, const std::string& run, size_t bytes);

  // The place of [data, data + bytes), if it lies in this rank's part of a region; else region -1.
  Place place_of(const std::byte* data, size_t bytes) const;
  // The address of a place that place_of() returned on any rank. Precondition: this rank uses its part of that region.
  std::byte* address_of(const Place& place, size_t bytes) const;

 private:
  struct Region;
  std::vector<std::weak_ptr<const Region>> regions_;
};

}  // namespace mlbench::comm::shm_backend
