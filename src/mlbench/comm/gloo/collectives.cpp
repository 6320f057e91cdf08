#include "mlbench/comm/gloo/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "mlbench/comm/gloo/mesh.h"

namespace mlbench::comm::gloo_backend {

namespace {

// Up to this size, the doubling's fewer rounds outweigh its longer messages.
constexpr size_t kDoublingBytes = 64 << 10;

int wrap(int rank, int size) { return (rank % size + size) % size; }

std::byte* bytes_of(BufferView buffer) { return static_cast<std::byte*>(buffer.data); }

Combine combine_of(BufferView buffer, ReduceOp op) {
  return {accumulate_function(buffer.dtype, op), size_of(buffer.dtype), false};
}

// Offsets of `size` blocks of whole elements, as equal as possible.
std::vector<size_t> even_blocks(BufferView buffer, int size) {
  std::vector<size_t> offsets;
  for (int64_t block = 0; block <= size; ++block) {
    offsets.push_back(static_cast<size_t>(buffer.count * block / size) * size_of(buffer.dtype));
  }
  return offsets;
}

// One step of a ring: block `out` goes to the right, block `in` comes from the left.
void ring_step(Mesh& mesh, std::byte* data, std::span<const size_t> offsets, int out, int in, const Combine* combine) {
  const int size = mesh.size();
  const auto first = [&](int block) { return offsets[static_cast<size_t>(wrap(block, size))]; };
  const auto bytes = [&](int block) { return offsets[static_cast<size_t>(wrap(block, size)) + 1] - first(block); };
  mesh.exchange(wrap(mesh.rank() + 1, size), data + first(out), bytes(out), wrap(mesh.rank() - 1, size),
                data + first(in), bytes(in), combine);
}

void all_gather(Mesh& mesh, std::byte* data, std::span<const size_t> offsets) {
  for (int step = 0; step < mesh.size() - 1; ++step) {
    ring_step(mesh, data, offsets, mesh.rank() - step, mesh.rank() - step - 1, nullptr);
  }
}

void reduce_scatter(Mesh& mesh, std::byte* data, std::span<const size_t> offsets, Combine combine) {
  for (int step = 0; step < mesh.size() - 1; ++step) {
    ring_step(mesh, data, offsets, mesh.rank() - step - 1, mesh.rank() - step - 2, &combine);
  }
}

// Sends in parts that fit into a socket buffer.
void send_in_chunks(Mesh& mesh, int to, const std::byte* data, size_t bytes) {
  for (size_t first = 0; first < bytes; first += mesh.chunk_bytes()) {
    mesh.send(to, data + first, std::min(mesh.chunk_bytes(), bytes - first), first / mesh.chunk_bytes());
  }
}

void recv_in_chunks(Mesh& mesh, int from, std::byte* data, size_t bytes) {
  for (size_t first = 0; first < bytes; first += mesh.chunk_bytes()) {
    mesh.recv(from, data + first, std::min(mesh.chunk_bytes(), bytes - first), first / mesh.chunk_bytes());
  }
}

void all_reduce_ring(Mesh& mesh, BufferView buffer, ReduceOp op) {
  const std::vector<size_t> offsets = even_blocks(buffer, mesh.size());
  reduce_scatter(mesh, bytes_of(buffer), offsets, combine_of(buffer, op));
  all_gather(mesh, bytes_of(buffer), offsets);
}

void all_reduce_doubling(Mesh& mesh, BufferView buffer, ReduceOp op) {
  Combine combine = combine_of(buffer, op);
  for (int distance = 1; distance < mesh.size(); distance *= 2) {
    const int partner = mesh.rank() ^ distance;
    combine.received_first = partner < mesh.rank();
    mesh.exchange(partner, bytes_of(buffer), buffer.size_bytes(), partner, bytes_of(buffer), buffer.size_bytes(),
                  &combine);
  }
}

// Ranks that share a part of the buffer, in one block per rank.
struct Group {
  int size, stride, place;  // ranks of neighbours differ by `stride`; the own place
  std::byte* data;
  std::vector<size_t> offsets;  // offsets of the blocks
};

// With `combine`, each member sends the others their blocks, and combines what it gets with its own block. Without it,
// each sends its own block and gets theirs. Blocks that fit into socket buffers are all sent before one is awaited.
void exchange_blocks(Mesh& mesh, const Group& group, const Combine* combine) {
  const auto bytes = [&](size_t block) { return group.offsets[block + 1] - group.offsets[block]; };
  const auto transfer = [&](int step, bool out, bool in) {
    const int to = wrap(group.place + step, group.size), from = wrap(group.place - step, group.size);
    const auto sent = static_cast<size_t>(combine != nullptr ? to : group.place);
    const auto received = static_cast<size_t>(combine != nullptr ? group.place : from);
    mesh.exchange(mesh.rank() + (to - group.place) * group.stride, group.data + group.offsets[sent],
                  out ? bytes(sent) : 0, mesh.rank() + (from - group.place) * group.stride,
                  group.data + group.offsets[received], in ? bytes(received) : 0, combine);
  };
  size_t largest = 0;
  for (size_t block = 0; block + 1 < group.offsets.size(); ++block) largest = std::max(largest, bytes(block));
  const bool at_once = largest <= mesh.chunk_bytes();
  for (int step = 1; step < group.size; ++step) transfer(step, true, !at_once);
  for (int step = 1; at_once && step < group.size; ++step) transfer(step, false, true);
}

// Reduces among the ranks below the product of `sizes`. A rank's number in this mixed radix, with the first digit
// lowest, holds its place in a group of each size: the ranks that differ in that digit alone. Group by group, the ranks
// reduce_scatter what is left of the buffer, and on the way back they all_gather it.
void all_reduce_in_groups(Mesh& mesh, BufferView buffer, ReduceOp op, std::span<const int> sizes) {
  const Combine combine = combine_of(buffer, op);
  std::vector<Group> groups;
  int stride = 1;
  for (const int size : sizes) {
    const int place = mesh.rank() / stride % size;
    groups.push_back({size, stride, place, bytes_of(buffer), even_blocks(buffer, size)});
    exchange_blocks(mesh, groups.back(), &combine);
    const int64_t first = buffer.count * place / size;
    buffer = buffer.slice(first, buffer.count * (place + 1) / size - first);
    stride *= size;
  }
  for (auto group = groups.rbegin(); group != groups.rend(); ++group) exchange_blocks(mesh, *group, nullptr);
}

void all_reduce_halving_doubling(Mesh& mesh, BufferView buffer, ReduceOp op) {
  const auto size = static_cast<unsigned>(mesh.size());
  const int power = static_cast<int>(std::bit_floor(size));
  const int folded = mesh.size() - power;  // number of ranks beyond the power of two
  const int rank = mesh.rank();
  std::byte* data = bytes_of(buffer);
  const size_t bytes = buffer.size_bytes();
  if (rank >= power) {
    mesh.exchange(rank - power, data, bytes, rank - power, nullptr, 0, nullptr);
    mesh.exchange(rank - power, nullptr, 0, rank - power, data, bytes, nullptr);
    return;
  }
  const Combine combine = combine_of(buffer, op);
  if (rank < folded) mesh.exchange(rank + power, nullptr, 0, rank + power, data, bytes, &combine);
  const std::vector<int> pairs(static_cast<size_t>(std::bit_width(size)) - 1, 2);
  all_reduce_in_groups(mesh, buffer, op, pairs);
  if (rank < folded) mesh.exchange(rank + power, data, bytes, rank + power, nullptr, 0, nullptr);
}

void all_reduce_bcube(Mesh& mesh, BufferView buffer, ReduceOp op) {
  constexpr int kGroup = 4;
  std::vector<int> sizes;
  int left = mesh.size();
  for (; left % kGroup == 0; left /= kGroup) sizes.push_back(kGroup);
  if (left > 1) sizes.push_back(left);
  all_reduce_in_groups(mesh, buffer, op, sizes);
}

void all_reduce_auto(Mesh& mesh, BufferView buffer, ReduceOp op) {
  const auto size = static_cast<unsigned>(mesh.size());
  const bool doubling = size == 2 || (std::has_single_bit(size) && buffer.size_bytes() <= kDoublingBytes);
  doubling ? all_reduce_doubling(mesh, buffer, op) : all_reduce_ring(mesh, buffer, op);
}

void barrier(Mesh& mesh) {
  for (int distance = 1; distance < mesh.size(); distance *= 2) {
    std::byte out{}, in{};
    mesh.exchange(wrap(mesh.rank() + distance, mesh.size()), &out, 1, wrap(mesh.rank() - distance, mesh.size()), &in, 1,
                  nullptr);
  }
}

void broadcast(Mesh& mesh, std::byte* data, size_t bytes, int root) {
  const int size = mesh.size();
  const int place = wrap(mesh.rank() - root, size);
  // The parent of a place is the place without its lowest bit; its children have one more bit below that.
  const int lowest = place == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(size))) : place & -place;
  for (size_t first = 0; first < bytes; first += mesh.chunk_bytes()) {
    const size_t chunk = std::min(mesh.chunk_bytes(), bytes - first);
    const size_t number = first / mesh.chunk_bytes();
    if (place != 0) mesh.recv(wrap(place - lowest + root, size), data + first, chunk, number);
    for (int bit = lowest / 2; bit > 0; bit /= 2) {
      if (place + bit < size) mesh.send(wrap(place + bit + root, size), data + first, chunk, number);
    }
  }
}

using AllReduce = void (*)(Mesh& mesh, BufferView buffer, ReduceOp op);

AllReduce all_reduce_named(std::string_view algorithm) {
  static constexpr std::pair<std::string_view, AllReduce> kRows[] = {
      {"auto", all_reduce_auto},
      {"ring", all_reduce_ring},
      {"halving_doubling", all_reduce_halving_doubling},
      {"bcube", all_reduce_bcube},
  };
  for (const auto& [name, function] : kRows) {
    if (name == algorithm) return function;
  }
  MLBENCH_CHECK(false, fmt::format("an all_reduce '{}'", algorithm));
  return nullptr;
}

void reduce(Mesh& mesh, BufferView buffer, ReduceOp op, int root) {
  const std::vector<size_t> offsets = even_blocks(buffer, mesh.size());
  reduce_scatter(mesh, bytes_of(buffer), offsets, combine_of(buffer, op));
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const size_t first = offsets[static_cast<size_t>(rank)];
    const size_t bytes = offsets[static_cast<size_t>(rank) + 1] - first;
    if (rank == root) continue;
    if (mesh.rank() == rank) send_in_chunks(mesh, root, bytes_of(buffer) + first, bytes);
    if (mesh.rank() == root) recv_in_chunks(mesh, rank, bytes_of(buffer) + first, bytes);
  }
}

void gather(Mesh& mesh, const std::byte* input, size_t bytes, std::byte* output, int root) {
  if (mesh.rank() != root) {
    send_in_chunks(mesh, root, input, bytes);
    return;
  }
  for (int rank = 0; rank < mesh.size(); ++rank) {
    std::byte* place = output + static_cast<size_t>(rank) * bytes;
    if (rank == root) {
      std::memcpy(place, input, bytes);
    } else {
      recv_in_chunks(mesh, rank, place, bytes);
    }
  }
}

void scatter(Mesh& mesh, const std::byte* input, std::byte* output, size_t bytes, int root) {
  if (mesh.rank() != root) {
    recv_in_chunks(mesh, root, output, bytes);
    return;
  }
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const std::byte* place = input + static_cast<size_t>(rank) * bytes;
    if (rank == root) {
      std::memcpy(output, place, bytes);
    } else {
      send_in_chunks(mesh, rank, place, bytes);
    }
  }
}

void all_to_all(Mesh& mesh, const std::byte* input, std::span<const size_t> out, std::byte* output,
                std::span<const size_t> in) {
  const auto bytes = [](std::span<const size_t> offsets, size_t rank) { return offsets[rank + 1] - offsets[rank]; };
  const auto own = static_cast<size_t>(mesh.rank());
  if (bytes(in, own) > 0) std::memcpy(output + in[own], input + out[own], bytes(in, own));
  for (int step = 1; step < mesh.size(); ++step) {
    const int to = wrap(mesh.rank() + step, mesh.size());
    const int from = wrap(mesh.rank() - step, mesh.size());
    const auto receiver = static_cast<size_t>(to);
    const auto sender = static_cast<size_t>(from);
    mesh.exchange(to, input + out[receiver], bytes(out, receiver), from, output + in[sender], bytes(in, sender),
                  nullptr);
  }
}

class TextbookCollectives final : public Collectives {
 public:
  TextbookCollectives(AllReduce all_reduce, std::unique_ptr<Mesh> mesh)
      : all_reduce_(all_reduce), mesh_(std::move(mesh)) {}

  void barrier() override { gloo_backend::barrier(*mesh_); }
  void broadcast(std::byte* data, size_t bytes, int root) override {
    gloo_backend::broadcast(*mesh_, data, bytes, root);
  }
  void all_reduce(BufferView buffer, ReduceOp op) override { all_reduce_(*mesh_, buffer, op); }
  void all_gather(std::byte* data, std::span<const size_t> offsets) override {
    gloo_backend::all_gather(*mesh_, data, offsets);
  }
  void reduce_scatter(BufferView blocks, ReduceOp op) override {
    gloo_backend::reduce_scatter(*mesh_, bytes_of(blocks), even_blocks(blocks, mesh_->size()), combine_of(blocks, op));
  }
  void reduce(BufferView buffer, ReduceOp op, int root) override { gloo_backend::reduce(*mesh_, buffer, op, root); }
  void gather(const std::byte* input, size_t bytes, std::byte* output, int root) override {
    gloo_backend::gather(*mesh_, input, bytes, output, root);
  }
  void scatter(const std::byte* input, std::byte* output, size_t bytes, int root) override {
    gloo_backend::scatter(*mesh_, input, output, bytes, root);
  }
  void all_to_all(const std::byte* input, std::span<const size_t> out, std::byte* output,
                  std::span<const size_t> in) override {
    gloo_backend::all_to_all(*mesh_, input, out, output, in);
  }
  void close() noexcept override { mesh_->close(); }

 private:
  AllReduce all_reduce_;
  std::unique_ptr<Mesh> mesh_;
};

}  // namespace

std::unique_ptr<Collectives> make_textbook_collectives(std::string_view all_reduce, std::unique_ptr<Mesh> mesh) {
  return std::make_unique<TextbookCollectives>(all_reduce_named(all_reduce), std::move(mesh));
}

}  // namespace mlbench::comm::gloo_backend
