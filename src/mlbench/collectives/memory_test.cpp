// The benchmark with buffers that this host cannot touch, as those on a GPU: their pages are closed but for the calls
// of Memory and the operations themselves, so that any other look at them ends the test.

#include "mlbench/collectives/memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mlbench/base/test_far_pages.h"
#include "mlbench/collectives/run.h"
#include "mlbench/collectives/test_group.h"
#include "mlbench/comm/reduce.h"

namespace mlbench::collectives {
namespace {

constexpr Device kFar{Device::Kind::kCuda, 0};

class FarMemory final : public Memory {
 public:
  explicit FarMemory(FarPages& pages) : pages_(pages) {}
  Stream stream() const override { return {kFar, nullptr}; }
  std::shared_ptr<std::byte> allocate(size_t bytes) override {
    return {pages_.allocate(bytes), [](std::byte*) {}};
  }
  void fill(std::byte* to, std::byte value, size_t bytes) override {
    pages_.while_open([&] { std::memset(to, static_cast<int>(value), bytes); });
  }
  void write(std::byte* to, const std::byte* host, size_t bytes) override { copy(to, host, bytes); }
  void read(std::byte* host, const std::byte* from, size_t bytes) override { copy(host, from, bytes); }
  void copy(std::byte* to, const std::byte* from, size_t bytes) override {
    if (bytes > 0) pages_.while_open([&] { std::memcpy(to, from, bytes); });
  }
  void synchronize() override {}

 private:
  FarPages& pages_;
};

// Takes far buffers alone, and does what transports are asked for with them: averages, and copies of a single rank.
class FarTransport final : public comm::Wrapper {
 public:
  FarTransport(std::unique_ptr<comm::Transport> inner, FarPages& pages) : Wrapper(std::move(inner)), pages_(pages) {}

  std::string description() const override { return "far"; }
  bool supports(const Device& device) const override { return device == kFar; }
  void broadcast(BufferView buffer, int root) override {
    pages_.while_open([&] { inner().broadcast(near(buffer), root); });
  }
  void all_reduce(BufferView buffer, comm::ReduceOp op) override {
    pages_.while_open([&] {
      inner().all_reduce(near(buffer), summed(op));
      average(buffer, op);
    });
  }
  void all_gather_v(ConstBufferView input, BufferView output, std::span<const int64_t> counts) override {
    pages_.while_open([&] {
      if (!alone(input, output)) inner().all_gather_v(near(input), near(output), counts);
    });
  }
  void reduce_scatter(ConstBufferView input, BufferView output, comm::ReduceOp op) override {
    pages_.while_open([&] {
      if (alone(input, output)) return;
      inner().reduce_scatter(near(input), near(output), summed(op));
      average(output, op);
    });
  }
  void reduce(BufferView buffer, comm::ReduceOp op, int root) override {
    pages_.while_open([&] {
      inner().reduce(near(buffer), summed(op), root);
      if (rank() == root) average(buffer, op);
    });
  }
  std::unique_ptr<comm::Work> send(ConstBufferView buffer, int peer, int tag) override {
    pages_.open();
    return std::make_unique<HookedWork>(inner().send(near(buffer), peer, tag), [this] { pages_.close(); });
  }
  std::unique_ptr<comm::Work> recv(BufferView buffer, int peer, int tag) override {
    pages_.open();
    return std::make_unique<HookedWork>(inner().recv(near(buffer), peer, tag), [this] { pages_.close(); });
  }
  void gather(ConstBufferView input, BufferView output, int root) override {
    pages_.while_open([&] {
      if (!alone(input, output)) inner().gather(near(input), near(output), root);
    });
  }
  void scatter(ConstBufferView input, BufferView output, int root) override {
    pages_.while_open([&] {
      if (!alone(input, output)) inner().scatter(near(input), near(output), root);
    });
  }
  void all_to_all(ConstBufferView input, BufferView output) override {
    pages_.while_open([&] {
      if (!alone(input, output)) inner().all_to_all(near(input), near(output));
    });
  }
  void all_to_all_v(ConstBufferView input, BufferView output, std::span<const int64_t> send_counts,
                    std::span<const int64_t> recv_counts) override {
    pages_.while_open([&] {
      if (!alone(input, output)) inner().all_to_all_v(near(input), near(output), send_counts, recv_counts);
    });
  }
  std::unique_ptr<comm::Transport> split(int, int) override { return nullptr; }

 private:
  static BufferView near(BufferView buffer) {
    buffer.stream = {};
    return buffer;
  }
  static ConstBufferView near(ConstBufferView buffer) {
    buffer.stream = {};
    return buffer;
  }
  static comm::ReduceOp summed(comm::ReduceOp op) { return op == comm::ReduceOp::kAvg ? comm::ReduceOp::kSum : op; }
  void average(const BufferView& sum, comm::ReduceOp op) const {
    if (op != comm::ReduceOp::kAvg) return;
    comm::divide_function(sum.dtype)(sum.data, static_cast<size_t>(sum.count), size());
  }
  // Whether there is no other rank: then it is a copy, which is made.
  bool alone(const ConstBufferView& input, const BufferView& output) const {
    if (size() > 1) return false;
    if (input.count > 0) std::memmove(output.data, input.data, input.size_bytes());
    return true;
  }

  FarPages& pages_;
};

class FarBuffers : public testing::TestWithParam<int> {};

TEST_P(FarBuffers, AreTouchedByNobodyButMemoryAndOperations) {
  const int ranks = GetParam();
  spec::CollectivesSpec spec;
  spec.operations.clear();
  for (const spec::CollectiveTraits& one : spec::collectives()) {
    if (one.least_ranks <= ranks) spec.operations.push_back(one.operation);
  }
  spec.reductions = {spec::Reduction::kSum, spec::Reduction::kMax, spec::Reduction::kAvg};
  spec.dtypes = {DType::kFloat32, DType::kInt8};
  spec.counts = {1, 1000};
  spec.iterations = 2;
  spec.warm_up = 1;
  spec.window = 4;
  spec.misaligned_elements = 1;
  if (ranks > 1) {
    spec.pairs.measure = true;
    spec.pairs.iterations = 2;
    spec.pairs.bandwidth_bytes = 100;
  }
  std::vector<FarPages> pages(static_cast<size_t>(ranks));
  std::vector<std::unique_ptr<comm::Communicator>> group;
  for (auto& transport : comm::make_in_process_transports(ranks, kGroupPatience)) {
    const auto rank = static_cast<size_t>(transport->rank());
    group.push_back(
        std::make_unique<comm::Communicator>(std::make_unique<FarTransport>(std::move(transport), pages[rank])));
  }
  std::atomic<size_t> rows{0};
  std::atomic<bool> pairs{false};
  run_group(std::move(group), [&](comm::Communicator& comm) {
    FarMemory memory(pages[static_cast<size_t>(comm.rank())]);
    Sink sink;
    sink.row = [&](const record::CollectiveRow& row) {
      ++rows;
      EXPECT_EQ(row.device, "cuda");
      for (const auto& form : {row.out_of_place, row.in_place}) {
        if (!form || row.operation == "barrier") continue;
        EXPECT_EQ(form->wrong, 0) << row.operation << " of " << row.dtype;
      }
    };
    sink.pairs = [&](const record::PairMatrix&) { pairs = true; };
    run(spec, comm, memory, SystemClock(), sink);
  });
  EXPECT_GT(rows, spec.operations.size());
  EXPECT_EQ(pairs, ranks > 1);
}
INSTANTIATE_TEST_SUITE_P(Ranks, FarBuffers, testing::Values(1, 2, 4));

}  // namespace
}  // namespace mlbench::collectives
