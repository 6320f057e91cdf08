#include "mlbench/comm/shm/collectives.h"

#include <algorithm>
#include <cstring>

#include "mlbench/comm/shm/copy.h"
#include "mlbench/comm/shm/pieces.h"

namespace mlbench::comm::shm_backend::collectives {

namespace {

Piece slice_of(std::span<const size_t> offsets, int rank) {
  const auto r = static_cast<size_t>(rank);
  return {offsets[r], offsets[r + 1] - offsets[r]};
}

// Either pointer may be null where there is nothing to copy.
void copy_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes > 0) std::memmove(to, from, bytes);
}

}  // namespace

void barrier(Group& group) { group.await_all(group.publish()); }

void broadcast(Group& group, std::byte* data, size_t bytes, int root) {
  const bool sends = group.rank() == root;
  if (bytes <= kPayloadBytes) {
    with_payload(group, {data, sends ? bytes : 0}, [&](uint64_t step) {
      if (sends) return;
      group.await(root, step);
      std::memcpy(data, group.payload(root, step), bytes);
    });
    return;
  }
  pipeline(
      group, pieces_of(bytes, kSlotBytes),
      [&](size_t i, std::byte* slot) {
        const Piece piece = piece_of(bytes, kSlotBytes, i);
        if (sends) put_bytes(slot, data + piece.first, piece.bytes);
      },
      [&](size_t i, int slot, uint64_t step) {
        if (sends) return;
        const Piece piece = piece_of(bytes, kSlotBytes, i);
        group.await(root, step);
        take_bytes(data + piece.first, group.slot(root, slot), piece.bytes);
      });
}

void all_gather(Group& group, const std::byte* input, std::byte* output, std::span<const size_t> offsets) {
  const Piece own = slice_of(offsets, group.rank());
  copy_bytes(output + own.first, input, own.bytes);
  size_t largest = 0;
  for (int rank = 0; rank < group.size(); ++rank) largest = std::max(largest, slice_of(offsets, rank).bytes);
  if (largest <= kPayloadBytes) {
    with_payload(group, {input, own.bytes}, [&](uint64_t step) {
      for_peers(group, [&](int peer) {
        const Piece slice = slice_of(offsets, peer);
        if (slice.bytes == 0) return;
        group.await(peer, step);
        std::memcpy(output + slice.first, group.payload(peer, step), slice.bytes);
      });
    });
    return;
  }
  pipeline(
      group, pieces_of(largest, kSlotBytes),
      [&](size_t i, std::byte* slot) {
        const Piece piece = piece_of(own.bytes, kSlotBytes, i);
        if (piece.bytes > 0) put_bytes(slot, input + piece.first, piece.bytes);
      },
      [&](size_t i, int slot, uint64_t step) {
        for_peers(group, [&](int peer) {
          const Piece slice = slice_of(offsets, peer);
          const Piece piece = piece_of(slice.bytes, kSlotBytes, i);
          if (piece.bytes == 0) return;
          group.await(peer, step);
          take_bytes(output + slice.first + piece.first, group.slot(peer, slot), piece.bytes);
        });
      });
}

void gather(Group& group, const std::byte* input, size_t bytes, std::byte* output, int root) {
  const bool receives = group.rank() == root;
  const auto place = [&](int rank) { return output + static_cast<size_t>(rank) * bytes; };
  if (receives) copy_bytes(place(root), input, bytes);
  if (bytes <= kPayloadBytes) {
    with_payload(group, {input, receives ? 0 : bytes}, [&](uint64_t step) {
      if (!receives) return;
      for_peers(group, [&](int peer) {
        group.await(peer, step);
        std::memcpy(place(peer), group.payload(peer, step), bytes);
      });
    });
    return;
  }
  pipeline(
      group, pieces_of(bytes, kSlotBytes),
      [&](size_t i, std::byte* slot) {
        const Piece piece = piece_of(bytes, kSlotBytes, i);
        if (!receives) put_bytes(slot, input + piece.first, piece.bytes);
      },
      [&](size_t i, int slot, uint64_t step) {
        if (!receives) return;
        const Piece piece = piece_of(bytes, kSlotBytes, i);
        for_peers(group, [&](int peer) {
          group.await(peer, step);
          take_bytes(place(peer) + piece.first, group.slot(peer, slot), piece.bytes);
        });
      });
}

void scatter(Group& group, const std::byte* input, std::byte* output, size_t bytes, int root) {
  const bool sends = group.rank() == root;
  const auto own = static_cast<size_t>(group.rank());
  const auto ranks = static_cast<size_t>(group.size());
  if (sends) copy_bytes(output, input + own * bytes, bytes);
  if (ranks * bytes <= kPayloadBytes) {
    with_payload(group, {input, sends ? ranks * bytes : 0}, [&](uint64_t step) {
      if (sends) return;
      group.await(root, step);
      std::memcpy(output, group.payload(root, step) + own * bytes, bytes);
    });
    return;
  }
  const size_t width = width_of(group);
  pipeline(
      group, pieces_of(bytes, width),
      [&](size_t i, std::byte* slot) {
        if (!sends) return;
        const Piece piece = piece_of(bytes, width, i);
        for_peers(group, [&](int peer) {
          const auto place = static_cast<size_t>(peer);
          put_bytes(slot + place * width, input + place * bytes + piece.first, piece.bytes);
        });
      },
      [&](size_t i, int slot, uint64_t step) {
        if (sends) return;
        const Piece piece = piece_of(bytes, width, i);
        group.await(root, step);
        take_bytes(output + piece.first, group.slot(root, slot) + own * width, piece.bytes);
      });
}

void all_to_all(Group& group, const std::byte* input, std::span<const size_t> input_offsets, std::byte* output,
                std::span<const size_t> output_offsets, size_t largest) {
  const auto own = static_cast<size_t>(group.rank());
  const Piece kept = slice_of(input_offsets, group.rank());
  copy_bytes(output + slice_of(output_offsets, group.rank()).first, input + kept.first, kept.bytes);
  if (largest == 0) return;
  const size_t width = width_of(group);
  pipeline(
      group, pieces_of(largest, width),
      [&](size_t i, std::byte* slot) {
        for_peers(group, [&](int peer) {
          const Piece slice = slice_of(input_offsets, peer);
          const Piece piece = piece_of(slice.bytes, width, i);
          if (piece.bytes == 0) return;
          put_bytes(slot + static_cast<size_t>(peer) * width, input + slice.first + piece.first, piece.bytes);
        });
      },
      [&](size_t i, int slot, uint64_t step) {
        for_peers(group, [&](int peer) {
          const Piece slice = slice_of(output_offsets, peer);
          const Piece piece = piece_of(slice.bytes, width, i);
          if (piece.bytes == 0) return;
          group.await(peer, step);
          take_bytes(output + slice.first + piece.first, group.slot(peer, slot) + own * width, piece.bytes);
        });
      });
}

size_t largest_of(Group& group, size_t mine) {
  size_t largest = mine;
  with_payload(group, std::as_bytes(std::span(&mine, 1)), [&](uint64_t step) {
    for_peers(group, [&](int peer) {
      size_t other = 0;
      group.await(peer, step);
      std::memcpy(&other, group.payload(peer, step), sizeof other);
      largest = std::max(largest, other);
    });
  });
  return largest;
}

}  // namespace mlbench::comm::shm_backend::collectives
