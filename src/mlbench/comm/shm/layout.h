#pragma once

// The layout of a group's segment, in this order: a header, one bell per rank, one station per rank; then for each rank
// an area, for which that rank reserves memory: its slots, and a ring for its messages to each other rank.
//
// Fresh shared memory is zero, and so is the initial state of everything in it.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "mlbench/comm/shm/bell.h"
#include "mlbench/comm/shm/process_mark.h"
#include "mlbench/net/proof.h"

namespace mlbench::comm::shm_backend {

inline constexpr size_t kCacheLineBytes = 64;
inline constexpr size_t kPageBytes = 4096;

// The bytes that a step can carry (group.h): the rest of its cache line.
inline constexpr size_t kPayloadBytes = kCacheLineBytes - sizeof(uint64_t);

// How many chunks of one collective a rank can have under way. Three stages (fill, reduce, take) overlap; the fourth
// slot avoids waiting for ranks that are a little behind.
inline constexpr int kSlots = 4;
// A slot is so large that a chunk's work outweighs its two signals, yet all slots of a few ranks stay in their caches.
inline constexpr size_t kSlotBytes = 128 << 10;

struct Line {
  alignas(kCacheLineBytes) std::atomic<uint64_t> step;
  std::byte payload[kPayloadBytes];
};
static_assert(sizeof(Line) == kCacheLineBytes && std::atomic<uint64_t>::is_always_lock_free);

enum class Presence : uint32_t { kAbsent, kPresent, kLeft };

// Who a rank is. Everything except `presence` is written before `presence` becomes kPresent.
struct Marker {
  alignas(kCacheLineBytes) std::atomic<Presence> presence;
  ProcessMark process;
  char proof[net::kProofBytes];  // the rank's proof that it knows the run's secret
};

// What a rank shows its peers. Two cache lines are fetched together, so two ranks never share a pair of lines.
struct Station {
  alignas(2 * kCacheLineBytes) Line lines[2];  // the line of step n is lines[n % 2]
  Marker marker;
};

// One direction between two ranks. Positions count bytes from the beginning; the ring's bytes follow this header.
struct Ring {
  alignas(2 * kCacheLineBytes) std::atomic<uint64_t> written;
  alignas(2 * kCacheLineBytes) std::atomic<uint64_t> read;
};

// Rank 0 writes this before anybody learns the segment's name; only `open` is written later.
struct Header {
  uint64_t version;  // the version of this layout
  uint32_t ranks;
  uint32_t passive;  // there are more ranks than cores: nobody spins
  char nonce[net::kNonceBytes];
  std::atomic<uint32_t> open;  // 1 once all ranks have come
};
inline constexpr uint64_t kLayoutVersion = 0x6d6c'7368'6d00'0001;

// Offsets within a segment.
class Layout {
 public:
  explicit Layout(int ranks);

  size_t bells() const { return bells_; }
  size_t station(int rank) const { return stations_ + static_cast<size_t>(rank) * sizeof(Station); }
  size_t control_bytes() const { return areas_; }  // header, bells, stations

  size_t area(int rank) const { return areas_ + static_cast<size_t>(rank) * area_bytes_; }
  size_t area_bytes() const { return area_bytes_; }
  size_t slot(int rank, int slot) const { return area(rank) + static_cast<size_t>(slot) * kSlotBytes; }
  size_t ring(int from, int to) const;  // the offset of a Ring, which ring_bytes() of data follow
  size_t ring_bytes() const { return ring_bytes_; }

  size_t total_bytes() const { return area(ranks_); }

 private:
  int ranks_;
  size_t bells_;
  size_t stations_;
  size_t areas_;
  size_t ring_bytes_;
  size_t area_bytes_;
};

inline constexpr size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace mlbench::comm::shm_backend
