#include "mlbench/comm/communicator.h"

#include <fmt/format.h>

#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "mlbench/comm/finished_work.h"
#include "mlbench/comm/reduce.h"

namespace mlbench::comm {

namespace {

bool on_host(const ConstBufferView& buffer) { return buffer.stream.device.kind == Device::Kind::kCpu; }

// What the transport is asked for: the average of host buffers is a sum that is divided here.
ReduceOp performed(ReduceOp op, const BufferView& buffer) {
  return op == ReduceOp::kAvg && on_host(buffer) ? ReduceOp::kSum : op;
}

void finish_average(ReduceOp op, const BufferView& sum, int ranks) {
  if (op != ReduceOp::kAvg || !on_host(sum)) return;
  divide_function(sum.dtype)(sum.data, static_cast<size_t>(sum.count), ranks);
}

void copy_input(const ConstBufferView& input, const BufferView& output) {
  if (input.count > 0) std::memmove(output.data, input.data, input.size_bytes());
}

void check_types(const ConstBufferView& input, const BufferView& output) {
  MLBENCH_CHECK(input.dtype == output.dtype, fmt::format("{} into {}", name_of(input.dtype), name_of(output.dtype)));
}

// Checks that there is one count per rank, and that the counts add up to the buffer.
void check_counts(std::span<const int64_t> counts, int size, const ConstBufferView& buffer, const char* name) {
  MLBENCH_CHECK(counts.size() == static_cast<size_t>(size), fmt::format("{} counts for {} ranks", counts.size(), size));
  for (const int64_t count : counts) MLBENCH_CHECK(count >= 0, fmt::format("a count of {}", count));
  const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  MLBENCH_CHECK(total == buffer.count,
                fmt::format("the counts add up to {}, the {} has {} elements", total, name, buffer.count));
}

}  // namespace

// Adds to a transport's Work what Communicator::perform adds to a blocking call.
class Communicator::GuardedWork final : public Work {
 public:
  GuardedWork(Communicator& owner, const char* operation, BoardEntry entry, std::unique_ptr<Work> work)
      : owner_(owner), operation_(operation), entry_(std::move(entry)), work_(std::move(work)) {}
  bool done() override {
    const bool done = work_->done();
    if (done) entry_.end();
    return done;
  }
  void wait() override {
    finish([this] { work_->wait(); });
  }
  void synchronize() override {
    finish([this] { work_->synchronize(); });
  }

 private:
  template <typename Wait>
  void finish(Wait wait) {
    try {
      wait();
    } catch (const CommError& error) {
      entry_.end();
      if (failure_.empty()) failure_ = owner_.failed(operation_, error.what()).what();
      throw CommError(failure_);
    }
    entry_.end();
  }

  Communicator& owner_;
  const char* operation_;
  BoardEntry entry_;
  std::unique_ptr<Work> work_;
  std::string failure_;
};

Communicator::Communicator(std::unique_ptr<Transport> transport, std::shared_ptr<OperationBoard> board)
    : board_(board != nullptr ? std::move(board) : std::make_shared<OperationBoard>()),
      transport_(std::move(transport)) {}

CommError Communicator::failed(const char* operation, const std::string& reason) {
  const std::string text = fmt::format("{}: rank {} of {}: {}", operation, rank(), size(), reason);
  if (failure_.empty()) {
    failure_ = text;
    transport_->let_go();
  }
  return CommError(text);
}

void Communicator::check_usable(const char* operation) const {
  if (failure_.empty()) return;
  throw CommError(
      fmt::format("{}: rank {} of {}: this communicator has failed before ({})", operation, rank(), size(), failure_));
}

void Communicator::check_buffer(const char* operation, const ConstBufferView& buffer) const {
  MLBENCH_CHECK(buffer.count >= 0, fmt::format("{} of {} elements", operation, buffer.count));
  MLBENCH_CHECK(buffer.count == 0 || buffer.data != nullptr, fmt::format("{} of a null buffer", operation));
  MLBENCH_CHECK(transport_->supports(buffer.stream.device),
                fmt::format("{} of a device buffer that {} cannot read", operation, description()));
}

void Communicator::check_rank(const char* operation, int rank, const char* role) const {
  MLBENCH_CHECK(rank >= 0 && rank < size(), fmt::format("{}: {} {} of {} ranks", operation, role, rank, size()));
}

void Communicator::check_message(const char* operation, const ConstBufferView& buffer, int peer, int tag) const {
  check_buffer(operation, buffer);
  check_rank(operation, peer, "peer");
  MLBENCH_CHECK(peer != rank(), fmt::format("{} between rank {} and itself", operation, peer));
  MLBENCH_CHECK(tag >= 0 && tag < Transport::kCollectiveTag,
                fmt::format("{}: tag {} is not in 0..65535", operation, tag));
}

template <typename Body>
void Communicator::perform(const char* operation, size_t bytes, int root_peer, Body&& body) {
  check_usable(operation);
  const BoardEntry entry(*board_, operation, bytes, root_peer);
  try {
    body();
  } catch (const CommError& error) {
    throw failed(operation, error.what());
  }
}

template <typename Body>
std::unique_ptr<Work> Communicator::start(const char* operation, size_t bytes, int peer, Body&& body) {
  check_usable(operation);
  BoardEntry entry(*board_, operation, bytes, peer);
  try {
    return std::make_unique<GuardedWork>(*this, operation, std::move(entry), body());
  } catch (const CommError& error) {
    throw failed(operation, error.what());
  }
}

void Communicator::barrier() {
  perform("barrier", 0, [&] {
    if (size() > 1) transport_->barrier();
  });
}

void Communicator::broadcast(BufferView buffer, int root) {
  check_buffer("broadcast", buffer);
  check_rank("broadcast", root, "root");
  perform("broadcast", buffer.size_bytes(), root, [&] {
    if (size() > 1 && buffer.count > 0) transport_->broadcast(buffer, root);
  });
}

void Communicator::all_reduce(BufferView buffer, ReduceOp op) {
  check_buffer("all_reduce", buffer);
  perform("all_reduce", buffer.size_bytes(), [&] {
    if (size() == 1 || buffer.count == 0) return;
    transport_->all_reduce(buffer, performed(op, buffer));
    finish_average(op, buffer, size());
  });
}

std::unique_ptr<Work> Communicator::all_reduce_async(BufferView buffer, ReduceOp op) {
  check_buffer("all_reduce", buffer);
  MLBENCH_CHECK(op != ReduceOp::kAvg, "an asynchronous average: nobody would divide the sum");
  return start("all_reduce", buffer.size_bytes(), -1, [&]() -> std::unique_ptr<Work> {
    if (size() > 1 && buffer.count > 0) return transport_->all_reduce_async(buffer, op);
    return std::make_unique<FinishedWork>();
  });
}

void Communicator::all_gather(ConstBufferView input, BufferView output) {
  const std::vector<int64_t> counts(static_cast<size_t>(size()), input.count);
  all_gather_v(input, output, counts);
}

void Communicator::all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts) {
  check_buffer("all_gather", input);
  check_buffer("all_gather", output);
  check_counts(counts, size(), output, "output");
  const int64_t own = counts[static_cast<size_t>(rank())];
  MLBENCH_CHECK(own == input.count,
                fmt::format("counts[{}] is {}, the input has {} elements", rank(), own, input.count));
  check_types(input, output);
  perform("all_gather", input.size_bytes(), [&] {
    if (size() == 1 && on_host(input) && on_host(output)) {
      copy_input(input, output);
    } else if (output.count > 0) {
      transport_->all_gather_v(input, output, counts);
    }
  });
}

void Communicator::reduce_scatter(ConstBufferView input, BufferView output, ReduceOp op) {
  check_buffer("reduce_scatter", input);
  check_buffer("reduce_scatter", output);
  MLBENCH_CHECK(input.count == size() * output.count,
                fmt::format("{} elements into {} ranks x {}", input.count, size(), output.count));
  check_types(input, output);
  perform("reduce_scatter", input.size_bytes(), [&] {
    if (size() == 1 && on_host(input) && on_host(output)) {
      copy_input(input, output);
    } else if (output.count > 0) {
      transport_->reduce_scatter(input, output, performed(op, output));
      finish_average(op, output, size());
    }
  });
}

void Communicator::reduce(BufferView buffer, ReduceOp op, int root) {
  check_buffer("reduce", buffer);
  check_rank("reduce", root, "root");
  perform("reduce", buffer.size_bytes(), root, [&] {
    if (size() == 1 || buffer.count == 0) return;
    transport_->reduce(buffer, performed(op, buffer), root);
    if (rank() == root) finish_average(op, buffer, size());
  });
}

void Communicator::gather(ConstBufferView input, BufferView output, int root) {
  check_buffer("gather", input);
  check_rank("gather", root, "root");
  if (rank() == root) {
    check_buffer("gather", output);
    MLBENCH_CHECK(output.count == size() * input.count,
                  fmt::format("{} ranks x {} elements into {}", size(), input.count, output.count));
    check_types(input, output);
  }
  perform("gather", input.size_bytes(), root, [&] {
    if (size() == 1 && on_host(input) && on_host(output)) {
      copy_input(input, output);
    } else if (input.count > 0) {
      transport_->gather(input, output, root);
    }
  });
}

void Communicator::scatter(ConstBufferView input, BufferView output, int root) {
  check_buffer("scatter", output);
  check_rank("scatter", root, "root");
  if (rank() == root) {
    check_buffer("scatter", input);
    MLBENCH_CHECK(input.count == size() * output.count,
                  fmt::format("{} elements into {} ranks x {}", input.count, size(), output.count));
    check_types(input, output);
  }
  perform("scatter", rank() == root ? input.size_bytes() : output.size_bytes(), root, [&] {
    if (size() == 1 && on_host(input) && on_host(output)) {
      copy_input(input, output);
    } else if (output.count > 0) {
      transport_->scatter(input, output, root);
    }
  });
}

void Communicator::all_to_all(ConstBufferView input, BufferView output) {
  check_buffer("all_to_all", input);
  check_buffer("all_to_all", output);
  MLBENCH_CHECK(input.count == output.count && input.count % size() == 0,
                fmt::format("{} elements into {}, in {} slices", input.count, output.count, size()));
  check_types(input, output);
  perform("all_to_all", input.size_bytes(), [&] {
    if (size() == 1 && on_host(input) && on_host(output)) {
      copy_input(input, output);
    } else if (input.count > 0) {
      transport_->all_to_all(input, output);
    }
  });
}

void Communicator::all_to_all_v(ConstBufferView input, BufferView output, std::span<const int64_t> send_counts,
                                std::span<const int64_t> recv_counts) {
  check_buffer("all_to_all", input);
  check_buffer("all_to_all", output);
  check_counts(send_counts, size(), input, "input");
  check_counts(recv_counts, size(), output, "output");
  const auto own = static_cast<size_t>(rank());
  MLBENCH_CHECK(send_counts[own] == recv_counts[own],
                fmt::format("rank {} sends itself {} elements and gets {}", own, send_counts[own], recv_counts[own]));
  check_types(input, output);
  perform("all_to_all", input.size_bytes(), [&] {
    if (size() == 1 && on_host(input) && on_host(output)) {
      copy_input(input, output);
    } else {  // even with nothing to send or receive: other ranks may have something
      transport_->all_to_all_v(input, output, send_counts, recv_counts);
    }
  });
}

void Communicator::send(ConstBufferView buffer, int peer, int tag) {
  check_message("send", buffer, peer, tag);
  perform("send", buffer.size_bytes(), peer, [&] {
    if (buffer.count > 0) transport_->send(buffer, peer, tag)->synchronize();
  });
}

void Communicator::recv(BufferView buffer, int peer, int tag) {
  check_message("recv", buffer, peer, tag);
  perform("recv", buffer.size_bytes(), peer, [&] {
    if (buffer.count > 0) transport_->recv(buffer, peer, tag)->synchronize();
  });
}

std::unique_ptr<Work> Communicator::send_async(ConstBufferView buffer, int peer, int tag) {
  check_message("send", buffer, peer, tag);
  return start("send", buffer.size_bytes(), peer, [&]() -> std::unique_ptr<Work> {
    if (buffer.count > 0) return transport_->send(buffer, peer, tag);
    return std::make_unique<FinishedWork>();
  });
}

std::unique_ptr<Work> Communicator::recv_async(BufferView buffer, int peer, int tag) {
  check_message("recv", buffer, peer, tag);
  return start("recv", buffer.size_bytes(), peer, [&]() -> std::unique_ptr<Work> {
    if (buffer.count > 0) return transport_->recv(buffer, peer, tag);
    return std::make_unique<FinishedWork>();
  });
}

std::shared_ptr<std::byte> Communicator::allocate(size_t bytes) {
  std::shared_ptr<std::byte> memory;
  perform("allocate", 0, [&] {
    memory = size() > 1 && bytes > 0 ? transport_->allocate(bytes) : transport_->Transport::allocate(bytes);
  });
  return memory;
}

std::unique_ptr<Communicator> Communicator::split(int colour, int key) {
  std::unique_ptr<Communicator> group;
  perform("split", 0, [&] { group = std::make_unique<Communicator>(transport_->split(colour, key), board_); });
  return group;
}

}  // namespace mlbench::comm
