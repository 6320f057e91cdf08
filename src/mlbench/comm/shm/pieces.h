#pragma once

// Buffers in pieces: for the shape that most collectives have, and for caches.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "mlbench/comm/shm/group.h"

namespace mlbench::comm::shm_backend {

// Bytes [first, first + bytes) of a buffer.
struct Piece {
  size_t first = 0;
  size_t bytes = 0;
};

// The i-th piece of a buffer cut after every `width` bytes; empty beyond its end.
inline Piece piece_of(size_t buffer_bytes, size_t width, size_t i) {
  const size_t first = std::min(buffer_bytes, i * width);
  return {first, std::min(width, buffer_bytes - first)};
}
inline size_t pieces_of(size_t buffer_bytes, size_t width) { return (buffer_bytes + width - 1) / width; }

// Of a slot that holds a piece for each rank: how long one can be, and where it begins.
inline size_t width_of(const Group& group) {
  return kSlotBytes / static_cast<size_t>(group.size()) / kCacheLineBytes * kCacheLineBytes;
}

// step(first, bytes) for pieces of a buffer that lie in a first-level cache together with their like of another rank.
inline constexpr size_t kBlockBytes = 16 << 10;
template <typename Step>
void blockwise(Piece piece, const Step& step) {
  for (size_t done = 0; done < piece.bytes; done += kBlockBytes) {
    step(piece.first + done, std::min(kBlockBytes, piece.bytes - done));
  }
}

// fill(i, slot) writes the i-th chunk into this rank's slot; take(i, slot, step) reads it out of the peers' slots of
// that number, each when the peer has been awaited at that step. The next chunk is filled before this one is taken.
template <typename Fill, typename Take>
void pipeline(Group& group, size_t chunks, const Fill& fill, const Take& take) {
  int slot = 0, last_slot = 0;
  uint64_t step = 0, last_step = 0;
  for (size_t i = 0; i <= chunks; ++i) {
    if (i < chunks) {
      slot = group.claim();
      fill(i, group.slot(group.rank(), slot));
      step = group.publish();
    }
    if (i > 0) {
      take(i - 1, last_slot, last_step);
      group.release(last_slot);
    }
    last_slot = slot;
    last_step = step;
  }
}

// The same for what fits a payload: `mine` goes along with this rank's next step; take(step) reads the peers'.
template <typename Take>
void with_payload(Group& group, std::span<const std::byte> mine, const Take& take) {
  if (!mine.empty()) std::memcpy(group.next_payload(), mine.data(), mine.size());
  const uint64_t step = group.publish();
  take(step);
  group.payloads_read();
}

// body(peer) for all others, each rank beginning with the one behind it: not all read the same memory at once.
template <typename Body>
void for_peers(const Group& group, const Body& body) {
  for (int i = 1; i < group.size(); ++i) body((group.rank() + i) % group.size());
}

}  // namespace mlbench::comm::shm_backend
