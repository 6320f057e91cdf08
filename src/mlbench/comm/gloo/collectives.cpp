#include "mlbench/comm/gloo/collectives.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

namespace mlbench::comm::gloo_backend::collectives {

namespace {

// Up to here the doubling's fewer rounds outweigh its longer messages.
constexpr size_t kDoublingBytes = 64 << 10;

int wrap(int rank, int size) { return (rank % size + size) % size; }

std::byte* bytes_of(BufferView buffer) { return static_cast<std::byte*>(buffer.data); }

Combine combine_of(BufferView buffer, ReduceOp op) {
  return {accumulate_function(buffer.dtype, op), size_of(buffer.dtype), false};
}

// k blocks of whole elements, as equal as they can be.
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

// In parts that a socket buffer holds: Gloo would enlarge it for a longer message.
void send_in_chunks(Mesh& mesh, int to, const std::byte* data, size_t bytes) {
  for (size_t first = 0; first < bytes; first += mesh.chunk_bytes()) {
    mesh.send(to, data + first, std::min(mesh.chunk_bytes(), bytes - first));
  }
}

void recv_in_chunks(Mesh& mesh, int from, std::byte* data, size_t bytes) {
  for (size_t first = 0; first < bytes; first += mesh.chunk_bytes()) {
    mesh.recv(from, data + first, std::min(mesh.chunk_bytes(), bytes - first));
  }
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

}  // namespace

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
  // A place's parent lacks its lowest bit; its children have one bit more below that.
  const int lowest = place == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(size))) : place & -place;
  for (size_t first = 0; first < bytes; first += mesh.chunk_bytes()) {
    const size_t chunk = std::min(mesh.chunk_bytes(), bytes - first);
    if (place != 0) mesh.recv(wrap(place - lowest + root, size), data + first, chunk);
    for (int bit = lowest / 2; bit > 0; bit /= 2) {
      if (place + bit < size) mesh.send(wrap(place + bit + root, size), data + first, chunk);
    }
  }
}

void all_reduce(Mesh& mesh, BufferView buffer, ReduceOp op) {
  const auto size = static_cast<unsigned>(mesh.size());
  if (size == 2 || (std::has_single_bit(size) && buffer.size_bytes() <= kDoublingBytes)) {
    all_reduce_doubling(mesh, buffer, op);
    return;
  }
  const std::vector<size_t> offsets = even_blocks(buffer, mesh.size());
  reduce_scatter(mesh, bytes_of(buffer), offsets, combine_of(buffer, op));
  all_gather(mesh, bytes_of(buffer), offsets);
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

void reduce(Mesh& mesh, BufferView buffer, ReduceOp op, int root) {
  const std::vector<size_t> offsets = even_blocks(buffer, mesh.size());
  reduce_scatter(mesh, bytes_of(buffer), offsets, combine_of(buffer, op));
  for (int rank = 0; rank < mesh.size(); ++rank) {
    const size_t first = offsets[static_cast<size_t>(rank)];
    const size_t bytes = offsets[static_cast<size_t>(rank) + 1] - first;
    if (rank == root || bytes == 0) continue;
    if (mesh.rank() == rank) mesh.send(root, bytes_of(buffer) + first, bytes);
    if (mesh.rank() == root) mesh.recv(rank, bytes_of(buffer) + first, bytes);
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

}  // namespace mlbench::comm::gloo_backend::collectives
