#include "mlbench/comm/shm/reductions.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "mlbench/comm/reduce.h"
#include "mlbench/comm/shm/copy.h"
#include "mlbench/comm/shm/pieces.h"

namespace mlbench::comm::shm_backend::reductions {

namespace {

// Up to this number of bytes, summed over the peers, reading everything costs less than a second step.
constexpr size_t kWholeBytes = 1 << 10;
static_assert(kWholeBytes <= kBlockBytes && kBlockBytes <= kSlotBytes);

constexpr int kEverywhere = -1;  // instead of a root

// How elements are combined.
class Combination {
 public:
  Combination(DType dtype, ReduceOp op) : function_(accumulate_function(dtype, op)), element_bytes_(size_of(dtype)) {}

  // Whether elements may lie at this address: a caller's buffer can begin anywhere.
  bool fits(const void* data) const { return reinterpret_cast<uintptr_t>(data) % element_bytes_ == 0; }
  void add(std::byte* sum, const std::byte* values, size_t bytes, bool values_first = false) const {
    function_(sum, values, bytes / element_bytes_, values_first);
  }

 private:
  AccumulateFunction function_;
  size_t element_bytes_;
};

// output = the combination of values_of(0), values_of(1), ... (`bytes` each). Only `output` may lie anywhere, and be
// values_of(0).
template <typename ValuesOf>
void combine_all(const Combination& combination, int ranks, std::byte* output, size_t bytes,
                 const ValuesOf& values_of) {
  alignas(kCacheLineBytes) std::byte aligned[kBlockBytes];
  const bool fits = combination.fits(output);
  blockwise({0, bytes}, [&](size_t first, size_t n) {
    std::byte* sum = fits ? output + first : aligned;
    const std::byte* begin = values_of(0) + first;
    if (sum != begin) std::memcpy(sum, begin, n);
    for (int rank = 1; rank < ranks; ++rank) combination.add(sum, values_of(rank) + first, n);
    if (!fits) std::memcpy(output + first, sum, n);
  });
}

// The rank's part of a buffer. Parts begin at cache lines, so that no two ranks write to the same line.
Piece share_of(const Group& group, size_t bytes, int rank) {
  const size_t lines = (bytes + kCacheLineBytes - 1) / kCacheLineBytes;
  const auto ranks = static_cast<size_t>(group.size());
  const auto begin = [&](size_t r) { return std::min(bytes, lines * r / ranks * kCacheLineBytes); };
  const auto own = static_cast<size_t>(rank);
  return {begin(own), begin(own + 1) - begin(own)};
}

// A reduction through the slots. A rank's results are written into a slot of another rank, over values of that rank. So
// one rank after the other writes a cache line, which costs several times less than lines that one rank writes and the
// others only read (copy.h).
class ThroughSlots {
 public:
  ThroughSlots(Group& group, const Combination& combination, std::byte* data, size_t bytes, int root)
      : group_(group),
        combination_(combination),
        data_(data),
        bytes_(bytes),
        takes_(root == kEverywhere || root == group.rank()),
        computes_in_place_(combination.fits(data)) {}

  // Fills the first slot.
  void begin() { fill(0); }

  // Does all the rest after begin(). Precondition: all ranks have filled their first slot and reached `step`.
  void finish(uint64_t step) {
    const size_t chunks = pieces_of(bytes_, kSlotBytes);
    chunk(0).filled = step;
    for (size_t i = 1; i <= chunks + 1; ++i) {
      if (i < chunks) {
        fill(i);
        chunk(i).filled = group_.publish();
      }
      if (i - 1 < chunks) {
        reduce(i - 1);
        chunk(i - 1).reduced = group_.publish();
      }
      if (i >= 2) take(i - 2);
    }
  }

 private:
  struct Chunk {
    int slot = 0;
    uint64_t filled = 0;  // the steps at which it was filled and reduced
    uint64_t reduced = 0;
  };
  Chunk& chunk(size_t i) { return chunks_[i % chunks_.size()]; }
  Piece piece(size_t i) const { return piece_of(bytes_, kSlotBytes, i); }
  // Where the results of that rank's share are: at the first values that are not the rank's own.
  std::byte* results_of(int rank, int slot) const { return group_.slot(rank == 0 ? 1 : 0, slot); }

  // The own share is not copied if it can be computed with in place.
  void fill(size_t i) {
    chunk(i).slot = group_.claim();
    std::byte* slot = group_.slot(group_.rank(), chunk(i).slot);
    const std::byte* values = data_ + piece(i).first;
    const size_t bytes = piece(i).bytes;
    const Piece own = computes_in_place_ ? share_of(group_, bytes, group_.rank()) : Piece{bytes, 0};
    const size_t behind = own.first + own.bytes;
    std::memcpy(slot, values, own.first);
    std::memcpy(slot + behind, values + behind, bytes - behind);
  }

  void reduce(size_t i) {
    const int slot = chunk(i).slot;
    const int own = group_.rank();
    group_.await_all(chunk(i).filled);
    std::byte* values = data_ + piece(i).first;
    std::byte* results = results_of(own, slot);
    const auto values_of = [&](int rank) {
      return rank == own && computes_in_place_ ? values : group_.slot(rank, slot);
    };
    blockwise(share_of(group_, piece(i).bytes, own), [&](size_t first, size_t n) {
      std::byte* sum = results + first;
      if (own == 0) combination_.add(sum, values_of(0) + first, n, true);
      for (int rank = own == 0 ? 2 : 1; rank < group_.size(); ++rank) combination_.add(sum, values_of(rank) + first, n);
      if (takes_) std::memcpy(values + first, sum, n);
    });
  }

  void take(size_t i) {
    std::byte* values = data_ + piece(i).first;
    if (takes_) {
      for_peers(group_, [&](int peer) {
        const Piece share = share_of(group_, piece(i).bytes, peer);
        group_.await(peer, chunk(i).reduced);
        std::memcpy(values + share.first, results_of(peer, chunk(i).slot) + share.first, share.bytes);
      });
    }
    group_.release(chunk(i).slot);
  }

  Group& group_;
  const Combination& combination_;
  std::byte* data_;
  size_t bytes_;
  bool takes_;
  bool computes_in_place_;
  std::array<Chunk, 3> chunks_;  // the chunks under way
};

// Each rank combines its share in the buffer of rank 0, and copies it to the others.
void reduce_in_place(Group& group, const Combination& combination, const std::vector<std::byte*>& buffers, size_t bytes,
                     int root) {
  blockwise(share_of(group, bytes, group.rank()), [&](size_t first, size_t n) {
    std::byte* sum = buffers[0] + first;
    for (size_t rank = 1; rank < buffers.size(); ++rank) combination.add(sum, buffers[rank] + first, n);
    for (size_t rank = 1; rank < buffers.size(); ++rank) {
      if (root == kEverywhere || root == static_cast<int>(rank)) std::memcpy(buffers[rank] + first, sum, n);
    }
  });
  group.await_all(group.publish());
}

void reduce_large(Group& group, const Regions& regions, const Combination& combination, std::byte* data, size_t bytes,
                  int root) {
  const Place own = combination.fits(data) ? regions.place_of(data, bytes) : Place();
  const auto is_shared = [](const Place& place) { return place.region >= 0; };
  ThroughSlots slots(group, combination, data, bytes, root);
  // A rank whose buffer lies in no region already knows which way will be taken.
  if (!is_shared(own)) slots.begin();

  std::vector<Place> places(static_cast<size_t>(group.size()), own);
  uint64_t step = 0;
  with_payload(group, std::as_bytes(std::span(&own, 1)), [&](uint64_t published) {
    step = published;
    for_peers(group, [&](int peer) {
      group.await(peer, step);
      std::memcpy(&places[static_cast<size_t>(peer)], group.payload(peer, step), sizeof(Place));
    });
  });
  const bool any_shared = std::any_of(places.begin(), places.end(), is_shared);
  const bool in_one_region = is_shared(own) && std::all_of(places.begin(), places.end(), [&](const Place& place) {
                               return place.region == own.region;
                             });
  if (in_one_region) {
    std::vector<std::byte*> buffers;
    for (const Place& place : places) buffers.push_back(regions.address_of(place, bytes));
    reduce_in_place(group, combination, buffers, bytes, root);
    return;
  }
  if (any_shared) {
    if (is_shared(own)) slots.begin();
    step = group.publish();
  }
  slots.finish(step);
}

void reduce_to(Group& group, const Regions& regions, BufferView buffer, ReduceOp op, int root) {
  const Combination combination(buffer.dtype, op);
  auto* data = static_cast<std::byte*>(buffer.data);
  const size_t bytes = buffer.size_bytes();
  const bool takes = root == kEverywhere || root == group.rank();
  // Rank 0 combines on top of its own values.
  const auto combine = [&](uint64_t step, const auto& shown_by) {
    if (!takes) return;
    combine_all(combination, group.size(), data, bytes, [&](int rank) -> const std::byte* {
      if (rank == 0 && group.rank() == 0) return data;
      if (rank != group.rank()) group.await(rank, step);
      return shown_by(rank);
    });
  };
  if (bytes <= kPayloadBytes) {
    with_payload(group, {data, bytes},
                 [&](uint64_t step) { combine(step, [&](int rank) { return group.payload(rank, step); }); });
  } else if (bytes * static_cast<size_t>(group.size() - 1) <= kWholeBytes) {
    pipeline(
        group, 1, [&](size_t, std::byte* slot) { std::memcpy(slot, data, bytes); },
        [&](size_t, int slot, uint64_t step) { combine(step, [&](int rank) { return group.slot(rank, slot); }); });
  } else {
    reduce_large(group, regions, combination, data, bytes, root);
  }
}

}  // namespace

void all_reduce(Group& group, const Regions& regions, BufferView buffer, ReduceOp op) {
  reduce_to(group, regions, buffer, op, kEverywhere);
}

void reduce(Group& group, const Regions& regions, BufferView buffer, ReduceOp op, int root) {
  reduce_to(group, regions, buffer, op, root);
}

void reduce_scatter(Group& group, ConstBufferView input, BufferView output, ReduceOp op) {
  const Combination combination(output.dtype, op);
  const auto* values = static_cast<const std::byte*>(input.data);
  auto* result = static_cast<std::byte*>(output.data);
  const size_t bytes = output.size_bytes();
  const auto own = static_cast<size_t>(group.rank());
  const size_t all_bytes = bytes * static_cast<size_t>(group.size());
  if (all_bytes <= kPayloadBytes) {
    with_payload(group, {values, all_bytes}, [&](uint64_t step) {
      combine_all(combination, group.size(), result, bytes, [&](int rank) {
        if (rank != group.rank()) group.await(rank, step);
        return group.payload(rank, step) + own * bytes;
      });
    });
    return;
  }
  // The own block is not copied if it can be computed with in place.
  const bool computes_in_place = combination.fits(values);
  const size_t width = width_of(group);
  pipeline(
      group, pieces_of(bytes, width),
      [&](size_t i, std::byte* slot) {
        const Piece piece = piece_of(bytes, width, i);
        for (size_t rank = 0; rank < static_cast<size_t>(group.size()); ++rank) {
          if (rank == own && computes_in_place) continue;
          put_bytes(slot + rank * width, values + rank * bytes + piece.first, piece.bytes);
        }
      },
      [&](size_t i, int slot, uint64_t step) {
        const Piece piece = piece_of(bytes, width, i);
        combine_all(combination, group.size(), result + piece.first, piece.bytes, [&](int rank) -> const std::byte* {
          if (rank == group.rank() && computes_in_place) return values + own * bytes + piece.first;
          if (rank != group.rank()) group.await(rank, step);
          return group.slot(rank, slot) + own * width;
        });
      });
}

}  // namespace mlbench::comm::shm_backend::reductions
