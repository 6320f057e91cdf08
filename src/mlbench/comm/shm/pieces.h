#pragma once

// Cuts buffers into pieces: for the shape that most collectives have, and for caches.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "mlbench/comm/shm/group.h"

namespace mlbench::comm::shm_backend {

// The bytes [first, first + bytes) of a buffer.
struct Piece {
  size_t first = 0;
  size_t bytes = 0;
};

// The i-th piece of a buffer that is cut after every `width` bytes; empty beyond the buffer's end.
inline Piece piece_of(size_t buffer_bytes, size_t width, size_t i) {
  const size_t first = std::min(buffer_bytes, i * width);
  return {first, std::min(width, buffer_bytes - first)};
}
inline size_t pieces_of(size_t buffer_bytes, size_t width) { return (buffer_bytes + width - 1) / width; }

// How long a piece can be in a slot that has one for each rank; piece r begins at r times this width.
inline size_t width_of(const Group& group) {
  return kSlotBytes / static_cast<size_t>(group.size()) / kCacheLineBytes * kCacheLineBytes;
}

// Calls step(first, bytes) for pieces so small that one fits, with that of another rank, into a first-level cache.
inline constexpr size_t kBlockBytes = 16 << 10;
template <typename Step>
void blockwise(Piece piece, const Step& step) {
  for (size_t done = 0; done < piece.bytes; done += kBlockBytes) {
    step(piece.first + done, std::min(kBlockBytes, piece.bytes - done));
  }
}

// fill(i, slot) writes the i-th chunk into this rank's slot. take(i, slot, step) reads the chunk out of the peers'
// slots of that number, once each peer has been awaited at that step. A chunk is filled before the last one is taken.
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

// Does what pipeline() does, for what fits into a payload: `mine` goes along with this rank's next step, and take(step)
// reads the peers' payloads.
template <typename Take>
void with_payload(Group& group, std::span<const std::byte> mine, const Take& take) {
  if (!mine.empty()) std::memcpy(group.next_payload(), mine.data(), mine.size());
  const uint64_t step = group.publish();
  take(step);
  group.payloads_read();
}

// Calls body(peer) for all other ranks. Each begins with the rank after it, so that not all read the same memory.
template <typename Body>
void for_peers(const Group& group, const Body& body) {
  for (int i = 1; i < group.size(); ++i) body((group.rank() + i) % group.size());
}

}  // namespace mlbench::comm::shm_backend
