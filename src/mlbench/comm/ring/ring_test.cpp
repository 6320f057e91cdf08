#include "mlbench/comm/ring/ring.h"

#include <fmt/format.h>

#include <bit>
#include <ostream>
#include <thread>
#include <utility>

#include "mlbench/comm/contract_test.h"
#include "mlbench/comm/in_process.h"

namespace mlbench::comm {
namespace {

const BackEnd kRing = wrapped_in_process("ring(in-process)", [](auto inner) { return make_ring(std::move(inner)); });

INSTANTIATE_TEST_SUITE_P(Ring, ContractTest, testing::ValuesIn(contract_cases(kRing)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(Ring, LostPeerContractTest, testing::ValuesIn(contract_cases(kRing)), contract_case_name);

// What a rank has sent.
struct Traffic {
  int messages = 0;
  size_t bytes = 0;
  bool operator==(const Traffic&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Traffic& traffic) {
  return out << traffic.messages << " messages, " << traffic.bytes << " bytes";
}

class CountingTransport final : public RingCollectives {
 public:
  explicit CountingTransport(std::unique_ptr<Transport> inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string description() const override { return "counting"; }
  std::unique_ptr<Work> send(ConstBufferView buffer, int peer, int tag) override {
    EXPECT_EQ(tag, kCollectiveTag);
    ++sent_.messages;
    sent_.bytes += buffer.size_bytes();
    return inner_->send(buffer, peer, tag);
  }
  std::unique_ptr<Work> recv(BufferView buffer, int peer, int tag) override { return inner_->recv(buffer, peer, tag); }
  std::unique_ptr<Transport> split(int, int) override { return nullptr; }
  Traffic take() { return std::exchange(sent_, {}); }

 private:
  std::unique_ptr<Transport> inner_;
  Traffic sent_;
};

// What the header promises: messages and bytes that each rank sends.
TEST(Ring, SendsWhatItsHeaderSays) {
  for (int size = 2; size <= 5; ++size) {
    auto ranks = make_in_process_transports(size, kPatience);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        CountingTransport ring(std::move(ranks[static_cast<size_t>(rank)]));
        const std::string where = fmt::format("rank {} of {}", rank, size);
        const int steps = size - 1;
        std::vector<float> values(60), others(60);
        const size_t block = 60 * sizeof(float) / static_cast<size_t>(size);
        const BufferView whole = view_of(std::span(values));
        const BufferView part = view_of(std::span(others)).slice(0, 60 / size);
        ring.all_reduce(whole, ReduceOp::kSum);
        EXPECT_EQ(ring.take(), (Traffic{2 * steps, 2 * static_cast<size_t>(steps) * block})) << where;
        ring.reduce_scatter(whole, part, ReduceOp::kSum);
        EXPECT_EQ(ring.take(), (Traffic{steps, static_cast<size_t>(steps) * block})) << where;
        ring.all_gather_v(part, whole, std::vector<int64_t>(static_cast<size_t>(size), 60 / size));
        EXPECT_EQ(ring.take(), (Traffic{steps, static_cast<size_t>(steps) * block})) << where;
        ring.reduce(whole, ReduceOp::kSum, 1);
        const int last = rank == 1 ? 0 : 1;
        EXPECT_EQ(ring.take(), (Traffic{steps + last, static_cast<size_t>(steps + last) * block})) << where;
        ring.gather(part, whole, 1);
        EXPECT_EQ(ring.take(), (Traffic{last, static_cast<size_t>(last) * block})) << where;
        ring.all_to_all(whole, view_of(std::span(others)));
        EXPECT_EQ(ring.take(), (Traffic{steps, static_cast<size_t>(steps) * block})) << where;
        const int rounds = std::bit_width(static_cast<unsigned>(size - 1));
        ring.barrier();
        EXPECT_EQ(ring.take(), (Traffic{rounds, static_cast<size_t>(rounds)})) << where;
        ring.broadcast(whole, 0);
        const Traffic sent = ring.take();
        EXPECT_LE(sent.messages, rounds) << where;
        if (rank == 0) {
          EXPECT_EQ(sent.messages, rounds) << where;
        }
        EXPECT_EQ(sent.bytes, static_cast<size_t>(sent.messages) * whole.size_bytes()) << where;
        ring.barrier();  // nobody leaves while another may still need it
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

// No rank sends an empty block.
TEST(Ring, FewerElementsThanRanks) {
  auto ranks = make_in_process_transports(4, kPatience);
  std::vector<std::thread> threads;
  std::vector<int> messages(4);
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([&, rank] {
      CountingTransport ring(std::move(ranks[static_cast<size_t>(rank)]));
      float value = 1;
      ring.all_reduce(view_of(std::span(&value, 1)), ReduceOp::kSum);
      EXPECT_EQ(value, 4.0F) << "rank " << rank;
      messages[static_cast<size_t>(rank)] = ring.take().messages;
      ring.barrier();
    });
  }
  for (std::thread& thread : threads) thread.join();
  // The only block goes once around to be combined, and once more to be known.
  EXPECT_EQ(messages[0] + messages[1] + messages[2] + messages[3], 6);
}

}  // namespace
}  // namespace mlbench::comm
