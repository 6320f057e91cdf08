#include "mlbench/comm/transport.h"

#include <cstring>
#include <new>
#include <vector>

#include "mlbench/comm/finished_work.h"
#include "mlbench/comm/work_group.h"

namespace mlbench::comm {

namespace {

constexpr std::align_val_t kAlignment{64};

void copy_own(const ConstBufferView& from, const BufferView& to) {
  if (from.count > 0) std::memcpy(to.data, from.data, from.size_bytes());
}

}  // namespace

std::unique_ptr<Work> Transport::all_reduce_async(BufferView buffer, ReduceOp op) {
  all_reduce(buffer, op);
  return std::make_unique<FinishedWork>();
}

void Transport::gather(ConstBufferView input, BufferView output, int root) {
  if (rank() != root) {
    send(input, root, kCollectiveTag)->synchronize();
    return;
  }
  WorkGroup works(*this);
  for (int peer = 0; peer < size(); ++peer) {
    const BufferView slice = output.slice(peer * input.count, input.count);
    if (peer == root) {
      copy_own(input, slice);
    } else {
      works.add(recv(slice, peer, kCollectiveTag));
    }
  }
  works.finish();
}

void Transport::scatter(ConstBufferView input, BufferView output, int root) {
  if (rank() != root) {
    recv(output, root, kCollectiveTag)->synchronize();
    return;
  }
  WorkGroup works(*this);
  for (int peer = 0; peer < size(); ++peer) {
    const ConstBufferView slice = input.slice(peer * output.count, output.count);
    if (peer == root) {
      copy_own(slice, output);
    } else {
      works.add(send(slice, peer, kCollectiveTag));
    }
  }
  works.finish();
}

void Transport::all_to_all_v(ConstBufferView input, BufferView output, std::span<const int64_t> send_counts,
                             std::span<const int64_t> recv_counts) {
  // All receives begin before the first send is waited for, so that no circle of ranks can wait for each other.
  WorkGroup works(*this);
  int64_t first = 0;
  BufferView own;
  for (int peer = 0; peer < size(); ++peer) {
    const BufferView slice = output.slice(first, recv_counts[static_cast<size_t>(peer)]);
    first += slice.count;
    if (peer == rank()) {
      own = slice;
    } else if (slice.count > 0) {
      works.add(recv(slice, peer, kCollectiveTag));
    }
  }
  first = 0;
  for (int peer = 0; peer < size(); ++peer) {
    const ConstBufferView slice = input.slice(first, send_counts[static_cast<size_t>(peer)]);
    first += slice.count;
    if (peer == rank()) {
      copy_own(slice, own);
    } else if (slice.count > 0) {
      works.add(send(slice, peer, kCollectiveTag));
    }
  }
  works.finish();
}

void Transport::all_to_all(ConstBufferView input, BufferView output) {
  const std::vector<int64_t> counts(static_cast<size_t>(size()), input.count / size());
  all_to_all_v(input, output, counts, counts);
}

std::shared_ptr<std::byte> Transport::allocate(size_t bytes) {
  auto* memory = static_cast<std::byte*>(::operator new(bytes, kAlignment));
  std::memset(memory, 0, bytes);
  return {memory, [](std::byte* address) { ::operator delete(address, kAlignment); }};
}

}  // namespace mlbench::comm
