// Ranks as real processes that are killed, stopped, or missing.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "mlbench/comm/gloo/gloo.h"
#include "mlbench/comm/test_processes.h"
#include "mlbench/net/test_stranger.h"

namespace mlbench::comm {
namespace {

using mlbench::test::Stranger;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

class GlooProcesses : public test::Processes {
 protected:
  GlooProcesses() : Processes(gloo_backend::make) {}

  // Waits until a stranger has connected to the ranks that listen already.
  void wait_for_knocks() const {
    const auto deadline = steady_clock::now() + kLongWait;
    while (!has_knocked() && steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  void expect_knocks(const Stranger& stranger) {
    const auto deadline = steady_clock::now() + kLongWait;
    while (stranger.connections() < 12 && steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_GE(stranger.connections(), 12) << "the stranger found no port";
    std::ofstream(knocked()) << "";
  }
  bool has_knocked() const { return std::filesystem::exists(knocked()); }

 private:
  std::filesystem::path knocked() const { return folder() / "knocked"; }
};

// A rank that has its result may end: the others still get theirs.
TEST_F(GlooProcesses, LeaveAfterTheLastOperation) {
  for (const int size : {2, 3, 5}) {
    renew();
    start(size, kLongWait, [](Communicator& comm) { return test::sum_of_ranks(comm, 500000); });
    for (int rank = 0; rank < size; ++rank) EXPECT_EQ(outcome(rank), "right") << size << " ranks, rank " << rank;
  }
}

class Killed : public GlooProcesses, public testing::WithParamInterface<int> {};

// The others notice at once, not at the timeout, and survive writing to the lost connection.
TEST_P(Killed, BetweenSmallOperations) {
  const int size = GetParam();
  const auto begin = steady_clock::now();
  start(size, kLongWait, [size](Communicator& comm) -> std::string {
    std::vector<float> values(100);
    test::reduce_forever(comm, values, [&](int round) {
      if (round == 5 && comm.rank() == size - 1) raise(SIGKILL);
    });
  });
  for (int rank = 0; rank < size - 1; ++rank) {
    const std::string error = outcome(rank);
    EXPECT_THAT(error, StartsWith(fmt::format("all_reduce: rank {} of {}: lost rank ", rank, size)));
    if (size == 2) {
      EXPECT_THAT(error, HasSubstr("lost rank 1 ("));
    }
  }
  EXPECT_EQ(outcome(size - 1), fmt::format("killed by signal {}", SIGKILL));
  EXPECT_LT(steady_clock::now() - begin, kLongWait / 2);
}

TEST_P(Killed, InTheMiddleOfALargeOne) {
  const int size = GetParam();
  const auto begin = steady_clock::now();
  start(size, kLongWait, [](Communicator& comm) -> std::string {
    std::vector<float> values(4'000'000);
    test::reduce_forever(comm, values);
  });
  std::this_thread::sleep_for(milliseconds(300));
  kill(pid(0), SIGKILL);
  for (int rank = 1; rank < size; ++rank) {
    EXPECT_THAT(outcome(rank),
                ContainsRegex(fmt::format("rank {} of {}: (lost rank|rank 0 did not come)", rank, size)));
  }
  EXPECT_LT(steady_clock::now() - begin, kLongWait / 2);
}

TEST_P(Killed, WhileAnotherWaitsForItsMessage) {
  const int size = GetParam();
  start(size, kLongWait, [size](Communicator& comm) -> std::string {
    if (comm.rank() == size - 1) {
      std::this_thread::sleep_for(milliseconds(50));
      raise(SIGKILL);
    }
    float value = 0;
    comm.recv(view_of(std::span(&value, 1)), size - 1, 9);
    return "received";
  });
  for (int rank = 0; rank < size - 1; ++rank) {
    EXPECT_THAT(outcome(rank), StartsWith(fmt::format("recv: rank {} of {}: lost rank {} (", rank, size, size - 1)));
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, Killed, testing::Values(2, 3, 4));

class Stopped : public GlooProcesses, public testing::WithParamInterface<int> {};

TEST_P(Stopped, OthersThrowAtTheTimeout) {
  const int size = GetParam();
  constexpr milliseconds kTimeout{400};
  start(size, kTimeout, [size](Communicator& comm) -> std::string {
    std::vector<float> values(1'000'000);
    test::reduce_forever(comm, values, [&](int round) {
      if (round == 3 && comm.rank() == size - 1) raise(SIGSTOP);
    });
  });
  bool named = false;
  for (int rank = 0; rank < size - 1; ++rank) {
    const std::string error = outcome(rank);
    EXPECT_THAT(error, StartsWith(fmt::format("all_reduce: rank {} of {}: ", rank, size)));
    EXPECT_THAT(error, ContainsRegex("waited 400 ms for rank [0-9]|lost rank [0-9]"));
    named = named || error.find(fmt::format("waited 400 ms for rank {}", size - 1)) != std::string::npos;
  }
  EXPECT_TRUE(named) << "somebody who waited for the stopped rank says so";
}

INSTANTIATE_TEST_SUITE_P(Ranks, Stopped, testing::Values(2, 3, 4));

TEST_F(GlooProcesses, AMissingRankIsNamed) {
  start(1, kLongWait, [this](Communicator&) -> std::string {
    gloo_backend::make(options(0, 2, milliseconds(100)));
    return "connected";
  });
  EXPECT_THAT(outcome(0), StartsWith("connecting with Gloo: rank 0 of 2: rank 1 did not come (waited 100 ms"));
}

class BesideAStranger : public GlooProcesses, public testing::WithParamInterface<int> {};

TEST_P(BesideAStranger, AGroupComesUpAndComputes) {
  const int size = GetParam();
  start(
      size, kLongWait, [](Communicator& comm) { return test::sum_of_ranks(comm); },
      [this](CommOptions& options) {
        if (options.rank == options.size - 1) wait_for_knocks();
      });
  const Stranger stranger;
  expect_knocks(stranger);
  for (int rank = 0; rank < size; ++rank) EXPECT_EQ(outcome(rank), "right") << "rank " << rank;
}

TEST_P(BesideAStranger, SoDoItsParts) {
  const int size = GetParam();
  start(size, kLongWait, [this](Communicator& comm) -> std::string {
    const auto all = comm.split(0, -comm.rank());
    // Ports are open only for moments, so groups are made until the stranger has found some.
    std::vector<int32_t> knocks = {0};
    do {
      const auto part = all->split(0, comm.rank());
      if (const std::string sum = test::sum_of_ranks(*part); sum != "right") return sum;
      knocks[0] = has_knocked() ? 1 : 0;
      comm.all_reduce(view_of(std::span(knocks)), ReduceOp::kSum);
    } while (knocks[0] < comm.size());
    return "right";
  });
  const Stranger stranger;
  expect_knocks(stranger);
  for (int rank = 0; rank < size; ++rank) EXPECT_EQ(outcome(rank), "right") << "rank " << rank;
}

INSTANTIATE_TEST_SUITE_P(Ranks, BesideAStranger, testing::Values(2, 3));

TEST_F(GlooProcesses, ARankWithAnotherSecretIsNamed) {
  start(
      2, milliseconds(500), [](Communicator&) { return "connected"; },
      [](CommOptions& options) { options.secret = options.rank == 0 ? "sesame" : "guessed"; });
  EXPECT_THAT(outcome(0), StartsWith("connecting with Gloo: rank 0 of 2: rank 1 has not proved within 0.5 s"));
  EXPECT_THAT(outcome(1), ContainsRegex("rank 1 of 2: (rank 0 has not proved|lost rank 0)"));
}

// No file is left when all goes well, or when a rank is killed.
TEST_F(GlooProcesses, LeaveNoTemporaryFile) {
  const TemporaryFolder folder;
  setenv("TMPDIR", folder.path().c_str(), 1);
  start(2, kLongWait, [](Communicator& comm) -> std::string {
    test::sum_of_ranks(comm);
    raise(SIGKILL);
    return "";
  });
  for (int rank = 0; rank < 2; ++rank) outcome(rank);
  unsetenv("TMPDIR");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(GlooProcesses, ListensOnAnAddressOrAnInterface) {
  for (const std::string address : {"127.0.0.1", "localhost", "lo"}) {
    renew();
    start(1, kLongWait, [&](Communicator&) {
      std::vector<std::thread> ranks;
      std::vector<int32_t> values = {1, 2};
      for (int rank = 0; rank < 2; ++rank) {
        ranks.emplace_back([&, rank] {
          CommOptions here = options(rank, 2, kLongWait);
          here.bind_address = address;
          Communicator comm(gloo_backend::make(here));
          comm.all_reduce(view_of(std::span(values)).slice(rank, 1), ReduceOp::kSum);
        });
      }
      for (std::thread& rank : ranks) rank.join();
      return fmt::format("{} {}", values[0], values[1]);
    });
    EXPECT_EQ(outcome(0), "3 3") << address;
  }
}

TEST_F(GlooProcesses, AWrongAddressIsNamed) {
  CommOptions wrong = options(0, 2, kLongWait);
  wrong.bind_address = "no-such-interface.invalid";
  start(1, kLongWait, [&](Communicator&) -> std::string {
    gloo_backend::make(wrong);
    return "connected";
  });
  EXPECT_THAT(outcome(0), StartsWith("Gloo cannot listen on no-such-interface.invalid"));
}

}  // namespace
}  // namespace mlbench::comm
