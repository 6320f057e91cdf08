#include "mlbench/comm/ring/ring.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "mlbench/comm/reduce.h"
#include "mlbench/comm/work_group.h"

namespace mlbench::comm {

namespace {

std::vector<int64_t> equal_blocks(int64_t count, int blocks) {
  std::vector<int64_t> firsts;
  for (int64_t block = 0; block <= blocks; ++block) firsts.push_back(count * block / blocks);
  return firsts;
}

BufferView block_of(const BufferView& buffer, std::span<const int64_t> firsts, int block) {
  const auto at = static_cast<size_t>(block);
  return buffer.slice(firsts[at], firsts[at + 1] - firsts[at]);
}

class Ring final : public RingCollectives {
 public:
  explicit Ring(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string description() const override { return fmt::format("ring({})", inner_->description()); }
  Json versions() const override { return inner_->versions(); }
  std::unique_ptr<Work> send(ConstBufferView buffer, int peer, int tag) override {
    return inner_->send(buffer, peer, tag);
  }
  std::unique_ptr<Work> recv(BufferView buffer, int peer, int tag) override { return inner_->recv(buffer, peer, tag); }
  std::shared_ptr<std::byte> allocate(size_t bytes) override { return inner_->allocate(bytes); }
  std::unique_ptr<Transport> split(int colour, int key) override {
    return std::make_unique<Ring>(inner_->split(colour, key));
  }
  void let_go() noexcept override { inner_->let_go(); }

 private:
  std::unique_ptr<Transport> inner_;
};

}  // namespace

int RingCollectives::along(int distance) const { return ((rank() + distance) % size() + size()) % size(); }

void RingCollectives::exchange(int to, ConstBufferView out, int from, BufferView in) {
  WorkGroup works(*this);
  if (in.count > 0) works.add(recv(in, from, kCollectiveTag));
  if (out.count > 0) works.add(send(out, to, kCollectiveTag));
  works.finish();
}

void RingCollectives::combine_around(BufferView buffer, std::span<const int64_t> firsts, ReduceOp op) {
  const AccumulateFunction accumulate = accumulate_function(buffer.dtype, op);
  for (int step = 0; step < size() - 1; ++step) {
    const BufferView out = block_of(buffer, firsts, along(-step - 1));
    const BufferView in = block_of(buffer, firsts, along(-step - 2));
    received_.resize(std::max(received_.size(), in.size_bytes()));
    exchange(along(1), out, along(-1), {received_.data(), in.count, in.dtype, in.stream});
    accumulate(in.data, received_.data(), static_cast<size_t>(in.count), false);
  }
}

void RingCollectives::pass_around(BufferView buffer, std::span<const int64_t> firsts) {
  for (int step = 0; step < size() - 1; ++step) {
    exchange(along(1), block_of(buffer, firsts, along(-step)), along(-1), block_of(buffer, firsts, along(-step - 1)));
  }
}

void RingCollectives::barrier() {
  for (int distance = 1; distance < size(); distance *= 2) {
    uint8_t out = 0, in = 0;
    exchange(along(distance), {&out, 1, DType::kUInt8}, along(-distance), {&in, 1, DType::kUInt8, {}});
  }
}

void RingCollectives::broadcast(BufferView buffer, int root) {
  const int place = along(-root);
  // A place's parent lacks the place's lowest bit; its children have one more bit, below that one.
  const int lowest = place == 0 ? static_cast<int>(std::bit_ceil(static_cast<unsigned>(size()))) : place & -place;
  if (place != 0) recv(buffer, along(-lowest), kCollectiveTag)->synchronize();
  WorkGroup works(*this);
  for (int bit = lowest / 2; bit > 0; bit /= 2) {
    if (place + bit < size()) works.add(send(buffer, along(bit), kCollectiveTag));
  }
  works.finish();
}

void RingCollectives::all_reduce(BufferView buffer, ReduceOp op) {
  const std::vector<int64_t> firsts = equal_blocks(buffer.count, size());
  combine_around(buffer, firsts, op);
  pass_around(buffer, firsts);
}

void RingCollectives::all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts) {
  std::vector<int64_t> firsts{0};
  for (const int64_t count : counts) firsts.push_back(firsts.back() + count);
  if (input.count > 0) std::memcpy(block_of(output, firsts, rank()).data, input.data, input.size_bytes());
  pass_around(output, firsts);
}

void RingCollectives::reduce_scatter(ConstBufferView input, BufferView output, ReduceOp op) {
  const auto* begin = static_cast<const std::byte*>(input.data);
  std::vector<std::byte> copy(begin, begin + input.size_bytes());
  const std::vector<int64_t> firsts = equal_blocks(input.count, size());
  const BufferView work{copy.data(), input.count, input.dtype, input.stream};
  combine_around(work, firsts, op);
  std::memcpy(output.data, block_of(work, firsts, rank()).data, output.size_bytes());
}

void RingCollectives::reduce(BufferView buffer, ReduceOp op, int root) {
  const std::vector<int64_t> firsts = equal_blocks(buffer.count, size());
  combine_around(buffer, firsts, op);
  WorkGroup works(*this);
  for (int peer = 0; peer < size(); ++peer) {
    const BufferView block = block_of(buffer, firsts, peer);
    if (peer == root || block.count == 0) continue;
    if (rank() == peer) works.add(send(block, root, kCollectiveTag));
    if (rank() == root) works.add(recv(block, peer, kCollectiveTag));
  }
  works.finish();
}

std::unique_ptr<Transport> make_ring(std::unique_ptr<Transport> inner) {
  return std::make_unique<Ring>(std::move(inner));
}

}  // namespace mlbench::comm
