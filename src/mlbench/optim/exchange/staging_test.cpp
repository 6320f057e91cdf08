// Gradients in separate memory, over back ends that take them from there and over those that take buffers of the host
// alone.

#include "mlbench/optim/exchange/staging.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "mlbench/comm/communicator.h"
#include "mlbench/comm/in_process.h"
#include "mlbench/compress/identity.h"
#include "mlbench/compress/toy_coders_test.h"
#include "mlbench/optim/exchange/centralized.h"
#include "mlbench/optim/test_ranks.h"

namespace mlbench::optim {
namespace {

const FlatLayout kStagedLayout{.ranges = {{"a", {3}, 0, 3, true}, {"b", {32}, 16, 32, true}}, .parameter_elements = 48};

at::Tensor share_of(int rank) { return (at::arange(48, at::kFloat) + static_cast<double>(10 * rank)).mul_(0.5); }

const CentralizedOptions kDivisions[] = {
    {}, {.by_layer = true}, {.bucket_mb = 1e-6}, {.by_layer = true, .overlap = true}};

TEST(Staging, GivesTheSumsOfTheHostsMemoryAndCountsWhatItCopies) {
  for (const CentralizedOptions& division : kDivisions) {
    for (const int size : {1, 2, 3}) {
      SCOPED_TRACE(fmt::format("by layer {}, buckets of {} MiB, overlap {}, {} ranks", division.by_layer,
                               division.bucket_mb, division.overlap, size));
      on_ranks(size, [&](int rank, comm::Communicator& comm) {
        compress::IdentityCoder coder(kStagedLayout);
        SeparateMemory memory;
        CentralizedExchange exchange({.comm = comm, .coder = coder, .layout = kStagedLayout, .memory = &memory},
                                     division);
        EXPECT_EQ(exchange.effective().at("staged"), size > 1);
        FlatTensors tensors{at::zeros({48}), share_of(rank)};
        at::Tensor sum = at::zeros({48});
        for (int one = 0; one < size; ++one) sum += share_of(one);
        for (const int step : {0, 1}) {
          tensors.gradients.copy_(share_of(rank));
          exchange.begin({step}, tensors);
          if (exchange.listens()) {
            exchange.ready(16, 32);
            exchange.ready(0, 3);
          }
          EXPECT_EQ(exchange.finish(), size == 1 ? 0U : 35 * sizeof(float));
          for (const FlatRange& range : kStagedLayout.ranges) {
            EXPECT_TRUE(at::equal(tensors.gradients.narrow(0, range.offset, range.count),
                                  sum.narrow(0, range.offset, range.count)));
          }
        }
        const bool whole = !division.by_layer && division.bucket_mb == 0;
        const uint64_t once = (whole ? 48 : 35) * sizeof(float);
        EXPECT_EQ(memory.flat_bytes, size == 1 ? 0 : 2 * 2 * once) << "there and back, in each of two steps";
        EXPECT_EQ(memory.batch_bytes, 0U);
      });
    }
  }
}

// A coder that looks at the values gets them on the host, even when there is nobody to send them to.
TEST(Staging, BringsTheGradientToACoderThatCompressesIt) {
  const auto comm = one_rank();
  compress::ErrorMemoryCoder coder({kStagedLayout});
  SeparateMemory memory;
  CentralizedExchange exchange({.comm = *comm, .coder = coder, .layout = kStagedLayout, .memory = &memory}, {});
  EXPECT_EQ(exchange.effective().at("staged"), true);
  FlatTensors tensors{at::zeros({48}), share_of(0) + 0.0625};
  exchange.begin({0}, tensors);
  exchange.finish();
  EXPECT_EQ(tensors.gradients[2].item<float>(), 1) << "a whole number of quarters";
  EXPECT_EQ(memory.flat_bytes, 2 * 48 * sizeof(float));
}

// Says that it takes buffers of a GPU, and keeps what it was given.
class GpuTransport final : public comm::Transport {
 public:
  explicit GpuTransport(std::vector<BufferView>& given) : given_(given) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::string description() const override { return "gpu"; }
  bool supports(const Device&) const override { return true; }
  void barrier() override {}
  void broadcast(BufferView, int) override {}
  void all_reduce(BufferView buffer, comm::ReduceOp) override { given_.push_back(buffer); }
  void all_gather_v(ConstBufferView, BufferView, std::span<const int64_t>) override {}
  void reduce_scatter(ConstBufferView, BufferView, comm::ReduceOp) override {}
  void reduce(BufferView, comm::ReduceOp, int) override {}
  std::unique_ptr<comm::Work> send(ConstBufferView, int, int) override { return nullptr; }
  std::unique_ptr<comm::Work> recv(BufferView, int, int) override { return nullptr; }
  std::unique_ptr<comm::Transport> split(int, int) override { return nullptr; }

 private:
  std::vector<BufferView>& given_;
};

TEST(Staging, IsNotWhereTheBackEndTakesTheGradientFromTheGpu) {
  int stream = 0;  // stands for a native one
  for (const CentralizedOptions& division : kDivisions) {
    std::vector<BufferView> given;
    comm::Communicator comm(std::make_unique<GpuTransport>(given));
    compress::IdentityCoder coder(kStagedLayout);
    SeparateMemory memory;
    memory.stream = {{Device::Kind::kCuda, 3}, &stream};
    FlatTensors tensors{at::zeros({48}), share_of(0)};
    {
      CentralizedExchange exchange({.comm = comm, .coder = coder, .layout = kStagedLayout, .memory = &memory},
                                   division);
      EXPECT_EQ(exchange.effective().at("staged"), false);
      exchange.begin({0}, tensors);
      exchange.finish();
    }
    ASSERT_EQ(given.size(), division.by_layer || division.bucket_mb > 0 ? 2U : 1U);
    EXPECT_EQ(given.back().data, tensors.gradients.data_ptr()) << "the first tensor's goes last";
    for (const BufferView& buffer : given) {
      EXPECT_EQ(buffer.stream.device, memory.stream.device);
      EXPECT_EQ(buffer.stream.handle, &stream);
    }
    EXPECT_EQ(memory.flat_bytes, 0U);
  }
}

}  // namespace
}  // namespace mlbench::optim
