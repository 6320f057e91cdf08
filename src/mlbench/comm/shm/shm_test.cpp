#include "mlbench/comm/shm/shm.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <thread>

#include "mlbench/base/json.h"
#include "mlbench/comm/contract_test.h"
#include "mlbench/comm/ring/ring.h"
#include "mlbench/comm/wrap/test_stack.h"

namespace mlbench::comm {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Ranks as threads, for speed; process_test.cpp has them as processes, for truth.
BackEnd wrapped_shm(const std::string& name, const WrapTransport& wrap, bool passive = false) {
  return {name, [=](int size, milliseconds timeout) -> MakeRank {
            auto store = std::make_shared<MemoryStore>();
            return [=](int rank) {
              CommOptions options;
              options.rank = rank;
              options.size = size;
              options.store = store;
              options.timeout = timeout;
              options.passive_wait = passive;
              return std::make_unique<Communicator>(wrap(shm_backend::make(options)));
            };
          }};
}

const BackEnd kShm = wrapped_shm("shm", [](auto transport) { return transport; });
// A back end whose ranks sleep at once instead of spinning first.
const BackEnd kPassiveShm = wrapped_shm(
    "shm", [](auto transport) { return transport; }, true);
// The ring uses only messages of shm.
const BackEnd kRingOverShm = wrapped_shm("ring(shm)", [](auto transport) { return make_ring(std::move(transport)); });
BackEnd in_bfloat16_at_least(const std::string& name, const WrapTransport& wrap) {
  BackEnd back_end = wrapped_shm(name, wrap);
  back_end.float32 = kBFloat16Precision;
  return back_end;
}
// Wrappers use 16-bit buffers, and an all-gather before each collective.
const BackEnd kCheckCastShm = in_bfloat16_at_least(
    "check(cast[bfloat16](shm))", [](auto transport) { return make_check(in_bfloat16(std::move(transport))); });
const BackEnd kWrappedShm = in_bfloat16_at_least(full_stack_of("shm"), in_full_stack);

INSTANTIATE_TEST_SUITE_P(Shm, ContractTest, testing::ValuesIn(contract_cases(kShm)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(Shm, LostPeerContractTest, testing::ValuesIn(contract_cases(kShm)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(PassiveShm, ContractTest, testing::Values(ContractCase{kPassiveShm, 2}), contract_case_name);
INSTANTIATE_TEST_SUITE_P(PassiveShm, LostPeerContractTest, testing::Values(ContractCase{kPassiveShm, 2}),
                         contract_case_name);
INSTANTIATE_TEST_SUITE_P(RingOverShm, ContractTest, testing::Values(ContractCase{kRingOverShm, 3}), contract_case_name);
INSTANTIATE_TEST_SUITE_P(RingOverShm, LostPeerContractTest, testing::Values(ContractCase{kRingOverShm, 3}),
                         contract_case_name);
INSTANTIATE_TEST_SUITE_P(CheckCastShm, ContractTest, testing::Values(ContractCase{kCheckCastShm, 2}),
                         contract_case_name);
INSTANTIATE_TEST_SUITE_P(CheckCastShm, LostPeerContractTest, testing::Values(ContractCase{kCheckCastShm, 3}),
                         contract_case_name);
INSTANTIATE_TEST_SUITE_P(WrappedShm, ContractTest, testing::Values(ContractCase{kWrappedShm, 3}), contract_case_name);
INSTANTIATE_TEST_SUITE_P(WrappedShm, LostPeerContractTest, testing::Values(ContractCase{kWrappedShm, 3}),
                         contract_case_name);

TEST(Shm, IsAvailable) {
  EXPECT_TRUE(shm_backend::available().available) << shm_backend::available().reason;
  EXPECT_EQ(shm_backend::available().reason, "");
}

// The text of what each rank throws, or "".
std::vector<std::string> errors_of(int size, const MakeRank& make_rank,
                                   const std::function<void(Communicator&)>& body) {
  std::vector<std::string> texts;
  for (const std::exception_ptr& error : run_ranks(make_rank, size, body)) {
    try {
      if (error != nullptr) std::rethrow_exception(error);
      texts.emplace_back();
    } catch (const std::exception& exception) {
      texts.emplace_back(exception.what());
    }
  }
  return texts;
}

void run_on(int size, const std::function<void(Communicator&)>& body) {
  const auto all = [&](Communicator& comm) {
    body(comm);
    comm.barrier();  // nobody leaves while another may still need it
  };
  EXPECT_THAT(errors_of(size, kShm.make_group(size, kPatience), all), testing::Each(""));
}

// ---- reductions in place -----------------------------------------------------------------------------------------

// Where a rank's buffer lies.
enum class Lies { kOnTheHeap, kInARegion, kInAnotherRegion, kAtAnOddAddress };

// Values whose sums depend on the order of additions, in the bits.
std::vector<float> random_values(int rank, size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank) + 1);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// The sum of all ranks' values, added in the order of ranks.
std::vector<float> sum_of_values(int size, size_t count) {
  std::vector<float> sum = random_values(0, count);
  for (int rank = 1; rank < size; ++rank) {
    const std::vector<float> values = random_values(rank, count);
    for (size_t i = 0; i < count; ++i) sum[i] += values[i];
  }
  return sum;
}

class Placed : public testing::TestWithParam<std::vector<Lies>> {};

// One rank's memory of each kind.
class Memory {
 public:
  Memory(Communicator& comm, size_t bytes)
      : first_(comm.allocate(bytes + 1)), second_(comm.allocate(bytes + 1)), heap_(bytes) {}
  std::byte* at(Lies lies) {
    if (lies == Lies::kInARegion) return first_.get();
    if (lies == Lies::kInAnotherRegion) return second_.get();
    if (lies == Lies::kAtAnOddAddress) return first_.get() + 1;
    return heap_.data();
  }

 private:
  std::shared_ptr<std::byte> first_, second_;
  std::vector<std::byte> heap_;
};

// Results have the same bits wherever the buffers lie, and nothing beside the buffers is touched.
TEST_P(Placed, ReductionsGiveTheSameBits) {
  const std::vector<Lies>& places = GetParam();
  const auto size = static_cast<int>(places.size());
  run_on(size, [&](Communicator& comm) {
    const std::vector<std::byte> margin(32, std::byte{0x55});
    Memory memory(comm, 300'007 * sizeof(float) + 2 * margin.size());
    for (const size_t count : {1, 17, 2000, 5000, 70'001, 300'007}) {
      const size_t bytes = count * sizeof(float);
      const std::vector<float> own = random_values(comm.rank(), count), sum = sum_of_values(size, count);
      for (const int root : {-1, 0, size - 1}) {
        std::byte* before = memory.at(places[static_cast<size_t>(comm.rank())]);
        std::byte* values = before + margin.size();
        std::byte* behind = values + bytes;
        std::memcpy(before, margin.data(), margin.size());
        std::memcpy(values, own.data(), bytes);
        std::memcpy(behind, margin.data(), margin.size());
        const BufferView buffer{values, static_cast<int64_t>(count), DType::kFloat32, {}};
        root < 0 ? comm.all_reduce(buffer, ReduceOp::kSum) : comm.reduce(buffer, ReduceOp::kSum, root);
        const std::string what = fmt::format("{} elements, root {}, rank {}", count, root, comm.rank());
        if (root < 0 || root == comm.rank()) {
          EXPECT_EQ(std::memcmp(values, sum.data(), bytes), 0) << what;
        }
        EXPECT_EQ(std::memcmp(before, margin.data(), margin.size()), 0) << what;
        EXPECT_EQ(std::memcmp(behind, margin.data(), margin.size()), 0) << what;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Shm, Placed,
                         testing::Values(std::vector{Lies::kInARegion, Lies::kInARegion},
                                         std::vector{Lies::kOnTheHeap, Lies::kOnTheHeap, Lies::kOnTheHeap},
                                         std::vector{Lies::kInARegion, Lies::kInARegion, Lies::kInARegion},
                                         std::vector{Lies::kInARegion, Lies::kOnTheHeap, Lies::kInARegion},
                                         std::vector{Lies::kOnTheHeap, Lies::kInARegion, Lies::kInARegion},
                                         std::vector{Lies::kInARegion, Lies::kInAnotherRegion},
                                         std::vector{Lies::kAtAnOddAddress, Lies::kInARegion},
                                         std::vector{Lies::kAtAnOddAddress, Lies::kAtAnOddAddress,
                                                     Lies::kAtAnOddAddress}));

// A rank may drop its memory while others still use theirs.
TEST(Shm, RegionsAreDroppedByEachRankForItself) {
  run_on(3, [](Communicator& comm) {
    auto memory = comm.allocate(100'000 * sizeof(int32_t));
    std::vector<int32_t> heap(100'000);
    for (int round = 0; round < 3; ++round) {
      if (round == comm.rank()) memory.reset();
      std::span<int32_t> values(memory == nullptr ? heap.data() : reinterpret_cast<int32_t*>(memory.get()),
                                heap.size());
      std::fill(values.begin(), values.end(), comm.rank() + 1);
      comm.all_reduce(view_of(values), ReduceOp::kSum);
      EXPECT_EQ(std::count(values.begin(), values.end(), 6), 100'000) << "round " << round;
    }
  });
}

// A rank that asks for more memory than there is gets an error, and so do the others: none gets SIGBUS or waits.
TEST(Shm, MemoryThatDoesNotFitIsAnErrorOfAllRanks) {
  struct statvfs disk {};
  ASSERT_EQ(statvfs("/dev/shm", &disk), 0);
  if (disk.f_blocks == 0) GTEST_SKIP() << "missing capability: a limited /dev/shm";
  const size_t too_much = 2 * static_cast<size_t>(disk.f_blocks) * disk.f_frsize;
  const auto errors = errors_of(3, kShm.make_group(3, kPatience), [&](Communicator& comm) { comm.allocate(too_much); });
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_THAT(errors[static_cast<size_t>(rank)],
                testing::AllOf(testing::StartsWith(fmt::format("allocate: rank {} of 3: no room for ", rank)),
                               HasSubstr("/dev/shm")));
  }
}

// ---- coming together -----------------------------------------------------------------------------------------------

// A store that hands rank 1 something else than rank 0 has written.
class ForgingStore final : public RendezvousStore {
 public:
  ForgingStore(std::shared_ptr<RendezvousStore> store, std::function<void(Json&)> forge)
      : store_(std::move(store)), forge_(std::move(forge)) {}
  void set(const std::string& key, const std::string& value) override { store_->set(key, value); }
  std::string get(const std::string& key, milliseconds timeout) override {
    Json value = Json::parse(store_->get(key, timeout));
    forge_(value);
    return value.dump();
  }

 private:
  std::shared_ptr<RendezvousStore> store_;
  std::function<void(Json&)> forge_;
};

std::vector<std::string> errors_with(const std::function<void(Json&)>& forge) {
  const auto store = std::make_shared<ForgingStore>(std::make_shared<MemoryStore>(), forge);
  return errors_of(
      2,
      [&](int rank) {
        CommOptions options;
        options.rank = rank;
        options.size = 2;
        options.store = store;
        options.timeout = milliseconds(500);
        options.secret = "sesame";
        return std::make_unique<Communicator>(shm_backend::make(options));
      },
      [](Communicator& comm) { comm.barrier(); });
}

TEST(ShmMeeting, WorksWithAStoreThatTellsTheTruth) {
  EXPECT_THAT(errors_with([](Json&) {}), testing::Each(""));
}

// A rank on another host finds no such segment, or by chance one of the same name.
TEST(ShmMeeting, OnSeveralHostsIsRefused) {
  const auto no_segment = errors_with([](Json& invitation) { invitation["segment"] = "mlbench-shm.elsewhere"; });
  EXPECT_EQ(no_segment[1],
            "connecting over shared memory: rank 1 of 2: cannot open shared memory /dev/shm/mlbench-shm.elsewhere: No "
            "such file or directory (errno 2), which rank 0 has made: the back end shm needs all ranks on one host");
  EXPECT_EQ(no_segment[0], "connecting over shared memory: rank 0 of 2: rank 1 did not come (waited 500 ms)");
  const auto other_number = errors_with([](Json& invitation) { invitation["nonce"] = std::string(64, '0'); });
  EXPECT_THAT(other_number[1], testing::ContainsRegex("rank 1 of 2: shared memory mlbench-shm[^ ]* is not what rank 0 "
                                                      "has made: the back end shm needs all ranks on one host"));
}

TEST(ShmMeeting, RefusesWhoCannotProveToBeRank0) {
  const auto errors = errors_with([](Json& invitation) { invitation["proof"] = std::string(64, '0'); });
  EXPECT_EQ(errors[1],
            "connecting over shared memory: rank 1 of 2: rank 0 has not proved that it knows the run's secret");
}

TEST(ShmMeeting, RefusesAnInvitationOfAnotherForm) {
  const auto errors = errors_with([](Json& invitation) { invitation = "come"; });
  EXPECT_THAT(errors[1], HasSubstr("rank 1 of 2: rank 0 announces '\"come\"': another version of the program?"));
}

// ---- messages ------------------------------------------------------------------------------------------------------

std::vector<int64_t> message(int from, int to, int64_t number, size_t count) {
  std::vector<int64_t> values(count);
  for (size_t i = 0; i < count; ++i) values[i] = (from * 10 + to) * 1'000'000 + number * 1000 + static_cast<int64_t>(i);
  return values;
}

// All send first, much more than the rings hold.
TEST(ShmMessages, LargeOnesThatAllSendFirstDoNotLockUp) {
  run_on(3, [](Communicator& comm) {
    constexpr size_t kCount = 200'003;
    const int next = (comm.rank() + 1) % 3, previous = (comm.rank() + 2) % 3;
    for (int64_t number = 0; number < 3; ++number) {
      std::vector<int64_t> out = message(comm.rank(), next, number, kCount), in(kCount);
      comm.send(view_of(std::span(out)), next, 1);
      comm.recv(view_of(std::span(in)), previous, 1);
      EXPECT_EQ(in, message(previous, comm.rank(), number, kCount));
    }
  });
}

// Messages go on during collectives, which go on during messages.
TEST(ShmMessages, MoveWhileTheRankWaitsForACollective) {
  run_on(2, [](Communicator& comm) {
    constexpr size_t kCount = 200'003;
    const int peer = 1 - comm.rank();
    std::vector<int64_t> out = message(comm.rank(), peer, 0, kCount), in(kCount);
    const auto receive = comm.recv_async(view_of(std::span(in)), peer, 1);
    const auto send = comm.send_async(view_of(std::span(out)), peer, 1);
    // Rank 1 comes when rank 0's message has passed, which takes rank 0's help.
    if (comm.rank() == 1) receive->wait();
    comm.barrier();
    receive->wait();
    send->wait();
    EXPECT_EQ(in, message(peer, comm.rank(), 0, kCount));
  });
}

// Tests every mixture of sizes and tags, begun by both sides in orders of their own.
TEST(ShmMessages, ArriveWhateverTheOrder) {
  run_on(3, [](Communicator& comm) {
    const std::vector<size_t> counts = {1, 20'000, 3, 8192, 100'000, 2, 60'000, 1};
    std::mt19937 random(static_cast<unsigned>(comm.rank()));
    std::vector<int> peers;
    std::vector<std::vector<int64_t>> out, in, expected;
    std::vector<std::unique_ptr<Work>> works;
    for (int peer = 0; peer < 3; ++peer) {
      if (peer == comm.rank()) continue;
      for (size_t number = 0; number < counts.size(); ++number) {
        peers.push_back(peer);
        out.push_back(message(comm.rank(), peer, static_cast<int64_t>(number), counts[number]));
        expected.push_back(message(peer, comm.rank(), static_cast<int64_t>(number), counts[number]));
        in.emplace_back(counts[number]);
      }
    }
    // Each peer's sends, and each tag's receives, keep their order.
    std::vector<std::function<void()>> sends, receives;
    for (size_t i = 0; i < out.size(); ++i) {
      const int peer = peers[i];
      const int tag = static_cast<int>(i % counts.size() * 7 % 5);
      sends.emplace_back(
          [&, i, peer, tag] { works.push_back(comm.send_async(view_of(std::span(out[i])), peer, tag)); });
      receives.emplace_back(
          [&, i, peer, tag] { works.push_back(comm.recv_async(view_of(std::span(in[i])), peer, tag)); });
    }
    size_t sent = 0, received = 0;
    while (sent + received < 2 * out.size()) {
      const bool send = received == receives.size() || (sent < sends.size() && random() % 2 == 0);
      send ? sends[sent++]() : receives[received++]();
    }
    std::shuffle(works.begin(), works.end(), random);
    for (const auto& work : works) work->wait();
    EXPECT_EQ(in, expected);
  });
}

TEST(ShmMessages, OfAnotherSizeAreRefused) {
  for (const bool early : {false, true}) {
    const auto errors = errors_of(2, kShm.make_group(2, kPatience), [&](Communicator& comm) {
      std::vector<int32_t> values(10);
      if (comm.rank() == 0) {
        comm.send(view_of(std::span(values)).slice(0, 4), 1, 5);
        if (early) comm.barrier();
        comm.recv(view_of(std::span(values)), 1, 6);
      } else {
        if (early) comm.barrier();
        comm.recv(view_of(std::span(values)), 0, 5);
      }
    });
    EXPECT_EQ(errors[1], "recv: rank 1 of 2: rank 0 sent 16 bytes under tag 5, 40 were expected");
    EXPECT_EQ(errors[0], "recv: rank 0 of 2: rank 1 has left the group");
  }
}

// ---- sequences -----------------------------------------------------------------------------------------------------

// Memory is used again and again, by operations of all kinds and sizes, with ranks that are early or late: nothing is
// overwritten before it is read.
class Sequence : public testing::TestWithParam<int> {};

TEST_P(Sequence, OfOperationsThatShareTheirMemory) {
  const int size = GetParam();
  run_on(size, [size](Communicator& comm) {
    std::mt19937 common(7), own(static_cast<unsigned>(comm.rank()) + 100);
    const std::vector<size_t> counts = {1, 2, 7, 14, 15, 300, 1024, 5000, 20'000, 70'001};
    const auto value = [](int rank, int round, size_t i) {
      return static_cast<int32_t>(rank * 1'000'003 + round * 1009 + static_cast<int>(i % 997));
    };
    for (int round = 0; round < 400; ++round) {
      const size_t count = counts[common() % (round % 10 == 0 ? counts.size() : 7)];
      const int root = static_cast<int>(common() % static_cast<unsigned>(size));
      const unsigned kind = common() % 6;
      if (own() % 8 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 300));
      const auto ranks = static_cast<size_t>(size);
      std::vector<int32_t> mine(count), expected(count);
      for (size_t i = 0; i < count; ++i) mine[i] = value(comm.rank(), round, i);
      const std::string what = fmt::format("round {}, kind {}, {} elements, root {}", round, kind, count, root);
      const auto sum_at = [&](size_t i) {
        uint32_t sum = 0;  // wraps
        for (int rank = 0; rank < size; ++rank) sum += static_cast<uint32_t>(value(rank, round, i));
        return static_cast<int32_t>(sum);
      };
      if (kind == 0) {
        comm.all_reduce(view_of(std::span(mine)), ReduceOp::kSum);
        for (size_t i = 0; i < count; ++i) expected[i] = sum_at(i);
        ASSERT_EQ(mine, expected) << what;
      } else if (kind == 1) {
        comm.broadcast(view_of(std::span(mine)), root);
        for (size_t i = 0; i < count; ++i) expected[i] = value(root, round, i);
        ASSERT_EQ(mine, expected) << what;
      } else if (kind == 2) {
        comm.reduce(view_of(std::span(mine)), ReduceOp::kSum, root);
        for (size_t i = 0; i < count; ++i) expected[i] = sum_at(i);
        if (comm.rank() == root) {
          ASSERT_EQ(mine, expected) << what;
        }
      } else if (kind == 3) {
        std::vector<int32_t> all(count * ranks), right(count * ranks);
        for (size_t i = 0; i < all.size(); ++i) right[i] = value(static_cast<int>(i / count), round, i % count);
        comm.gather(view_of(std::span(mine)), view_of(std::span(all)), root);
        if (comm.rank() == root) {
          ASSERT_EQ(all, right) << what;
        }
      } else if (kind == 4) {
        std::vector<int32_t> all(count * ranks);
        for (size_t i = 0; i < all.size(); ++i) all[i] = value(root, round, i);
        comm.scatter(view_of(std::span(all)), view_of(std::span(mine)), root);
        const size_t first = static_cast<size_t>(comm.rank()) * count;
        for (size_t i = 0; i < count; ++i) expected[i] = value(root, round, first + i);
        ASSERT_EQ(mine, expected) << what;
      } else {
        comm.barrier();
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Shm, Sequence, testing::Values(2, 3, 5));

// Infinities and NaN: where values do not compare, the order of ranks decides, on all ranks alike.
TEST(Shm, SpecialValuesHaveTheSameBitsOnAllRanks) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float special[] = {0.0F, -0.0F, kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN(), 1.0F};
  for (const size_t count : {size_t{12}, size_t{600}, size_t{30'000}}) {
    run_on(3, [&](Communicator& comm) {
      for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMin, ReduceOp::kMax}) {
        std::vector<float> values(count), all(3 * count);
        std::mt19937 random(static_cast<unsigned>(comm.rank()));
        for (float& value : values) value = special[random() % std::size(special)];
        comm.all_reduce(view_of(std::span(values)), op);
        comm.all_gather(view_of(std::span(values)), view_of(std::span(all)));
        for (size_t rank = 0; rank < 3; ++rank) {
          EXPECT_EQ(std::memcmp(all.data() + rank * count, values.data(), count * sizeof(float)), 0)
              << count << " elements, operation " << static_cast<int>(op) << ", ranks " << comm.rank() << ", " << rank;
        }
      }
    });
  }
}

}  // namespace
}  // namespace mlbench::comm
