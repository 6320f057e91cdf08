#include "mlbench/comm/shm/layout.h"

namespace mlbench::comm::shm_backend {

namespace {

constexpr size_t kMaxRingBytes = 64 << 10;
constexpr size_t kMinRingBytes = 4 << 10;
constexpr size_t kAllRingsBytes = 32 << 20;

// The number of rings grows with the square of the number of ranks: all of them together stay below a limit.
size_t ring_bytes_of(int ranks) {
  const auto rings = static_cast<size_t>(ranks) * static_cast<size_t>(ranks - 1);
  size_t bytes = kMaxRingBytes;
  while (bytes > kMinRingBytes && bytes * rings > kAllRingsBytes) bytes /= 2;
  return bytes;
}

}  // namespace

Layout::Layout(int ranks)
    : ranks_(ranks),
      bells_(round_up(sizeof(Header), alignof(Station))),
      stations_(round_up(bells_ + static_cast<size_t>(ranks) * sizeof(Bell), alignof(Station))),
      areas_(round_up(stations_ + static_cast<size_t>(ranks) * sizeof(Station), kPageBytes)),
      ring_bytes_(ring_bytes_of(ranks)),
      area_bytes_(
          round_up(kSlots * kSlotBytes + static_cast<size_t>(ranks - 1) * (sizeof(Ring) + ring_bytes_), kPageBytes)) {}

size_t Layout::ring(int from, int to) const {
  const auto place = static_cast<size_t>(to < from ? to : to - 1);
  return slot(from, kSlots) + place * (sizeof(Ring) + ring_bytes_);
}

}  // namespace mlbench::comm::shm_backend
