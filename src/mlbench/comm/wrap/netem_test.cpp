#include "mlbench/comm/wrap/netem.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <thread>
#include <tuple>
#include <utility>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/comm/contract_test.h"
#include "mlbench/comm/in_process.h"

namespace mlbench::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

const BackEnd kNetem = wrapped_in_process("netem(ring(in-process))", [](auto inner) {
  return make_netem(std::move(inner), {.all = {.latency = std::chrono::microseconds(5), .bytes_per_second = 20e9}});
});

INSTANTIATE_TEST_SUITE_P(Netem, ContractTest, testing::ValuesIn(contract_cases(kNetem)), contract_case_name);
INSTANTIATE_TEST_SUITE_P(Netem, LostPeerContractTest, testing::ValuesIn(contract_cases(kNetem)), contract_case_name);

TEST(Link, AMessageTakesItsLatencyAndItsBytes) {
  const TimePoint start{std::chrono::seconds(100)};
  Link link({.latency = milliseconds(3), .bytes_per_second = 1e6});
  EXPECT_EQ(link.send(start, 2000), start + milliseconds(3) + milliseconds(2));
}

TEST(Link, CarriesOneMessageAtATime) {
  const TimePoint start{std::chrono::seconds(100)};
  Link link({.latency = milliseconds(3), .bytes_per_second = 1e6});
  link.send(start, 2000);
  // Latencies overlap, bytes do not.
  EXPECT_EQ(link.send(start + milliseconds(1), 4000), start + milliseconds(2 + 4 + 3));
  EXPECT_EQ(link.send(start + milliseconds(50), 1000), start + milliseconds(50 + 1 + 3));
}

TEST(Link, WithoutLimitsItTakesNoTime) {
  const TimePoint start{std::chrono::seconds(100)};
  Link link(LinkOptions{});
  EXPECT_EQ(link.send(start, 1 << 30), start);
}

// Runs `body` on ranks over links of these options; returns the time from the first one's begin to the last one's end.
Nanoseconds time_of(int size, const NetemOptions& options, const std::function<void(Communicator&)>& body) {
  auto transports = make_in_process_transports(size, kPatience);
  std::vector<TimePoint> begins(transports.size()), ends(transports.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < transports.size(); ++rank) {
    threads.emplace_back([&, rank] {
      Communicator comm(make_netem(std::move(transports[rank]), options));
      begins[rank] = steady_clock::now();
      body(comm);
      ends[rank] = steady_clock::now();
      comm.barrier();  // nobody leaves while another may still need it
    });
  }
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(ends.begin(), ends.end()) - *std::min_element(begins.begin(), begins.end());
}

// Never less than the formula, of which nothing here knows; netem_speed_test.cpp has how much more.
TEST(Netem, AnAllReduceTakesNoLessThanTheRingsFormula) {
  const NetemOptions options{.all = {.latency = milliseconds(2), .bytes_per_second = 50e6}};
  for (int size = 2; size <= 4; ++size) {
    const int64_t elements = 120'000;  // whole blocks
    const Nanoseconds taken = time_of(size, options, [&](Communicator& comm) {
      std::vector<float> values(static_cast<size_t>(elements), 1.0F);
      comm.all_reduce(view_of(std::span(values)), ReduceOp::kSum);
      EXPECT_EQ(values.front(), static_cast<float>(size));
      EXPECT_EQ(values.back(), static_cast<float>(size));
    });
    const double steps = 2.0 * (size - 1);
    const double bytes = static_cast<double>(elements) * sizeof(float);
    EXPECT_GE(to_seconds(taken), steps * 0.002 + steps / size * bytes / 50e6) << size << " ranks";
    EXPECT_LT(taken, kPatience / 2) << size << " ranks";
  }
}

TEST(Netem, MessagesOfOneLinkWaitForEachOther) {
  const NetemOptions options{.all = {.latency = milliseconds(1), .bytes_per_second = 1e6}};
  const Nanoseconds taken = time_of(2, options, [&](Communicator& comm) {
    std::vector<std::byte> bytes(10'000);
    const BufferView buffer{bytes.data(), 10'000, DType::kUInt8, {}};
    for (int i = 0; i < 4; ++i) {
      if (comm.rank() == 0) comm.send(buffer, 1, i);
    }
    // The last one first: it is there no earlier than after all four.
    for (int i = 3; i >= 0; --i) {
      if (comm.rank() == 1) comm.recv(buffer, 0, i);
    }
  });
  EXPECT_GE(taken, milliseconds(41));
}

// One slow direction of one pair: only what goes there is late.
TEST(Netem, ALinkHasItsOwnOptions) {
  const NetemOptions options{.links = {{{0, 1}, {.latency = milliseconds(600)}}}};
  for (const auto& [sender, receiver, slow] :
       {std::tuple(0, 1, true), std::tuple(1, 0, false), std::tuple(0, 2, false)}) {
    Nanoseconds waited{0};
    time_of(3, options, [&, from = sender, to = receiver](Communicator& comm) {
      int32_t value = comm.rank();
      if (comm.rank() == from) comm.send(view_of(std::span(&value, 1)), to, 0);
      if (comm.rank() != to) return;
      const TimePoint begin = steady_clock::now();
      comm.recv(view_of(std::span(&value, 1)), from, 0);
      waited = steady_clock::now() - begin;
      EXPECT_EQ(value, from);
    });
    if (slow) {
      EXPECT_GE(waited, milliseconds(300)) << sender << " -> " << receiver;
    } else {
      EXPECT_LT(waited, milliseconds(300)) << sender << " -> " << receiver;
    }
  }
}

// In a part, ranks have other numbers; the links are the same.
TEST(Netem, PartsGoOverTheLinksOfTheWhole) {
  const NetemOptions options{.links = {{{2, 0}, {.latency = milliseconds(300)}}}};
  const Nanoseconds taken = time_of(3, options, [&](Communicator& comm) {
    const auto part = comm.split(comm.rank() == 1 ? 1 : 0, -comm.rank());  // ranks 2, 0
    if (comm.rank() == 1) return;
    int32_t value = comm.rank();
    if (part->rank() == 0) part->send(view_of(std::span(&value, 1)), 1, 0);
    if (part->rank() == 1) part->recv(view_of(std::span(&value, 1)), 0, 0);
    EXPECT_EQ(value, 2);
  });
  EXPECT_GE(taken, milliseconds(300));
}

TEST(Netem, ARequestThatIsNotThereIsRefused) {
  const auto refused = [](const NetemOptions& options) {
    try {
      make_netem(std::move(make_in_process_transports(2, kPatience).front()), options);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(refused({.links = {{{0, 2}, {}}}}), "netem: the link 0 -> 2 is none between two of 2 ranks (0 to 1)");
  EXPECT_EQ(refused({.links = {{{1, 1}, {}}}}), "netem: the link 1 -> 1 is none between two of 2 ranks (0 to 1)");
  EXPECT_EQ(refused({.all = {.latency = milliseconds(-1)}}),
            "netem: every link has a latency of -1000000 ns and 0 bytes/s; neither can be negative");
  EXPECT_EQ(refused({.links = {{{0, 1}, {}}}}), "accepted");
}

}  // namespace
}  // namespace mlbench::comm
