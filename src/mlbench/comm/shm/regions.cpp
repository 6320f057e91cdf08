#include "mlbench/comm/shm/regions.h"

#include <fmt/format.h>

#include <cstring>
#include <optional>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/comm/shm/collectives.h"
#include "mlbench/comm/shm/segment.h"

namespace mlbench::comm::shm_backend {

struct Regions::Region {
  Segment segment;
  size_t first;  // where this rank's part begins
  size_t part_bytes;
};

std::shared_ptr<std::byte> Regions::allocate(Group& group, const std::string& run, size_t bytes) {
  constexpr size_t kNameBytes = 256;
  const size_t part_bytes = round_up(bytes, kPageBytes);
  const size_t first = static_cast<size_t>(group.rank()) * part_bytes;
  std::optional<Segment> segment;
  std::string error;
  const auto attempt = [&](const auto& action) {
    try {
      action();
    } catch (const CommError& failure) {
      error = failure.what();
    }
  };
  std::byte name[kNameBytes] = {};
  if (group.rank() == 0) {
    attempt([&] {
      const std::string made = new_segment_name(run);
      MLBENCH_CHECK(made.size() < kNameBytes, made);
      segment.emplace(Segment::create(made, part_bytes * static_cast<size_t>(group.size())));
      std::memcpy(name, made.data(), made.size());
    });
  }
  collectives::broadcast(group, name, kNameBytes, 0);
  if (group.rank() != 0 && name[0] != std::byte{0}) {
    attempt([&] { segment.emplace(Segment::open(reinterpret_cast<const char*>(name))); });
  }
  if (segment) attempt([&] { segment->reserve(first, part_bytes); });

  // A rank that fails does so when all have heard of it, so that nobody is left waiting.
  const std::byte has_room{segment && error.empty() ? uint8_t{1} : uint8_t{0}};
  std::vector<std::byte> room(static_cast<size_t>(group.size()));
  std::vector<size_t> offsets;
  for (size_t rank = 0; rank <= room.size(); ++rank) offsets.push_back(rank);
  collectives::all_gather(group, &has_room, room.data(), offsets);
  if (segment) segment->unlink();
  const size_t number = regions_.size();
  regions_.emplace_back();
  if (!error.empty()) throw CommError(error);
  for (size_t rank = 0; rank < room.size(); ++rank) {
    if (room[rank] == std::byte{0}) {
      throw CommError(fmt::format("rank {} found no shared memory for {} bytes", rank, bytes));
    }
  }
  const auto region = std::make_shared<const Region>(Region{std::move(*segment), first, part_bytes});
  regions_[number] = region;
  return {region, region->segment.data() + first};
}

Place Regions::place_of(const std::byte* data, size_t bytes) const {
  for (size_t number = 0; number < regions_.size(); ++number) {
    const auto region = regions_[number].lock();
    if (region == nullptr) continue;
    const std::byte* own = region->segment.data() + region->first;
    if (data >= own && bytes <= region->part_bytes && data <= own + (region->part_bytes - bytes)) {
      return {static_cast<int64_t>(number), static_cast<uint64_t>(data - region->segment.data())};
    }
  }
  return {};
}

std::byte* Regions::address_of(const Place& place, size_t bytes) const {
  const auto region = regions_[static_cast<size_t>(place.region)].lock();
  MLBENCH_CHECK(region != nullptr && place.offset + bytes <= region->segment.size(),
                fmt::format("{} bytes at {} of region {}", bytes, place.offset, place.region));
  return region->segment.data() + place.offset;
}

}  // namespace mlbench::comm::shm_backend
