// Ranks as real processes that are killed, stopped, or missing.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "mlbench/base/input.h"
#include "mlbench/base/json.h"
#include "mlbench/comm/shm/layout.h"
#include "mlbench/comm/shm/segment.h"
#include "mlbench/comm/shm/shm.h"
#include "mlbench/comm/test_processes.h"

namespace mlbench::comm {
namespace {

namespace fs = std::filesystem;
using shm_backend::maker_of;
using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::ContainsRegex;
using testing::StartsWith;

class ShmProcesses : public test::Processes {
 protected:
  ShmProcesses() : Processes(shm_backend::make) {}

  // Waits until rank 0 has told where its segment is.
  void wait_for_invitation() const {
    const auto deadline = steady_clock::now() + kLongWait;
    while (!fs::exists(folder() / "shm_invitation") && steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  // Waits until `rank` of a group of `size` ranks is in the segment.
  void wait_for_presence(int rank, int size) const {
    wait_for_invitation();
    const Json invitation = parse_json(read_file(folder() / "shm_invitation"), inputs::kMessage);
    const shm_backend::Segment segment = shm_backend::Segment::open(invitation.at("segment"));
    const auto* station =
        reinterpret_cast<const shm_backend::Station*>(segment.data() + shm_backend::Layout(size).station(rank));
    const auto deadline = steady_clock::now() + kLongWait;
    while (station->marker.presence.load() != shm_backend::Presence::kPresent) {
      ASSERT_LT(steady_clock::now(), deadline) << "rank " << rank << " never came";
      std::this_thread::sleep_for(milliseconds(1));
    }
  }

  // Names of segments that processes of this pid made.
  static std::vector<std::string> segments_of(pid_t pid) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator("/dev/shm")) {
      const std::string name = entry.path().filename().string();
      const auto maker = maker_of(name);
      if (maker && maker->pid == pid) names.push_back(name);
    }
    return names;
  }
};

// Memory that the ranks share, as floats.
class SharedFloats {
 public:
  SharedFloats(Communicator& comm, size_t count) : memory_(comm.allocate(count * sizeof(float))), count_(count) {}
  std::span<float> values() { return {reinterpret_cast<float*>(memory_.get()), count_}; }

 private:
  std::shared_ptr<std::byte> memory_;
  size_t count_;
};

// A rank that has its result may end: the others still get theirs.
TEST_F(ShmProcesses, LeaveAfterTheLastOperation) {
  for (const int size : {2, 3, 5}) {
    for (const size_t count : {size_t{1}, size_t{1000}, size_t{500000}}) {
      renew();
      start(size, kLongWait, [count](Communicator& comm) { return test::sum_of_ranks(comm, count); });
      for (int rank = 0; rank < size; ++rank) {
        EXPECT_EQ(outcome(rank), "right") << count << " elements, " << size << " ranks, rank " << rank;
      }
    }
  }
}

TEST_F(ShmProcesses, LeaveAfterTheLastReductionInPlace) {
  for (const int size : {2, 3, 5}) {
    renew();
    start(size, kLongWait, [](Communicator& comm) -> std::string {
      SharedFloats shared(comm, 500000);
      std::fill(shared.values().begin(), shared.values().end(), static_cast<float>(comm.rank() + 1));
      comm.all_reduce(view_of(shared.values()), ReduceOp::kSum);
      const int sum = comm.size() * (comm.size() + 1) / 2;
      const auto right = std::count(shared.values().begin(), shared.values().end(), static_cast<float>(sum));
      return fmt::format("{} right", right);
    });
    for (int rank = 0; rank < size; ++rank) EXPECT_EQ(outcome(rank), "500000 right") << size << ", rank " << rank;
  }
}

struct Waiting {
  int size;
  bool passive;
};

// Runs with and without spinning.
class Killed : public ShmProcesses, public testing::WithParamInterface<Waiting> {
 protected:
  void start_ranks(const std::function<std::string(Communicator&)>& body) {
    start(GetParam().size, kLongWait, body, [](CommOptions& options) { options.passive_wait = GetParam().passive; });
  }
  // All ranks but one name the one that was killed.
  void expect_lost(int killed, const std::string& operation) {
    for (int rank = 0; rank < GetParam().size; ++rank) {
      if (rank == killed) continue;
      EXPECT_EQ(outcome(rank), fmt::format("{}: rank {} of {}: lost rank {} (its process has ended)", operation, rank,
                                           GetParam().size, killed));
    }
    EXPECT_EQ(outcome(killed), fmt::format("killed by signal {}", SIGKILL));
    EXPECT_LT(steady_clock::now() - begin_, kLongWait / 2);
  }

 private:
  steady_clock::time_point begin_ = steady_clock::now();
};

// The others notice within a moment, not at the timeout.
TEST_P(Killed, BetweenSmallOperations) {
  const int last = GetParam().size - 1;
  start_ranks([last](Communicator& comm) -> std::string {
    std::vector<float> values(100);
    test::reduce_forever(comm, values, [&](int round) {
      if (round == 5 && comm.rank() == last) raise(SIGKILL);
    });
  });
  expect_lost(last, "all_reduce");
}

TEST_P(Killed, InTheMiddleOfALargeOne) {
  start_ranks([](Communicator& comm) -> std::string {
    std::vector<float> values(4'000'000);
    test::reduce_forever(comm, values);
  });
  std::this_thread::sleep_for(milliseconds(300));
  kill(pid(0), SIGKILL);
  for (int rank = 1; rank < GetParam().size; ++rank) {
    EXPECT_THAT(outcome(rank), ContainsRegex("rank [0-9] of [0-9]: (lost rank 0|rank 0 did not come)"));
  }
}

TEST_P(Killed, InTheMiddleOfOneInPlace) {
  const int last = GetParam().size - 1;
  start_ranks([last](Communicator& comm) -> std::string {
    SharedFloats shared(comm, 1'000'000);
    test::reduce_forever(comm, shared.values(), [&](int round) {
      if (round == 5 && comm.rank() == last) raise(SIGKILL);
    });
  });
  expect_lost(last, "all_reduce");
}

TEST_P(Killed, WhileAnotherWaitsForItsMessage) {
  const int last = GetParam().size - 1;
  start_ranks([last](Communicator& comm) -> std::string {
    if (comm.rank() == last) {
      std::this_thread::sleep_for(milliseconds(50));
      raise(SIGKILL);
    }
    float value = 0;
    comm.recv(view_of(std::span(&value, 1)), last, 9);
    return "received";
  });
  expect_lost(last, "recv");
}

TEST_P(Killed, WhileAnotherSendsItALargeMessage) {
  const int last = GetParam().size - 1;
  start_ranks([last](Communicator& comm) -> std::string {
    std::vector<float> values(1'000'000);
    if (comm.rank() == last) {
      std::this_thread::sleep_for(milliseconds(50));
      raise(SIGKILL);
    }
    comm.send(view_of(std::span(values)), last, 9);
    return "sent";
  });
  expect_lost(last, "send");
}

INSTANTIATE_TEST_SUITE_P(Ranks, Killed,
                         testing::Values(Waiting{2, false}, Waiting{2, true}, Waiting{3, false}, Waiting{4, false}),
                         [](const auto& info) {
                           return fmt::format("{}Ranks{}", info.param.size, info.param.passive ? "Passive" : "");
                         });

class Stopped : public ShmProcesses, public testing::WithParamInterface<int> {};

TEST_P(Stopped, OthersThrowAtTheTimeout) {
  const int size = GetParam();
  start(size, milliseconds(400), [size](Communicator& comm) -> std::string {
    std::vector<float> values(1'000'000);
    test::reduce_forever(comm, values, [&](int round) {
      if (round == 3 && comm.rank() == size - 1) raise(SIGSTOP);
    });
  });
  bool named = false;
  for (int rank = 0; rank < size - 1; ++rank) {
    const std::string error = outcome(rank);
    EXPECT_THAT(error, StartsWith(fmt::format("all_reduce: rank {} of {}: ", rank, size)));
    EXPECT_THAT(error, ContainsRegex(fmt::format("waited 400 ms for rank {}|has left the group", size - 1)));
    named = named || error.find(fmt::format("waited 400 ms for rank {}", size - 1)) != std::string::npos;
  }
  EXPECT_TRUE(named) << "nobody names the stopped rank";
}

INSTANTIATE_TEST_SUITE_P(Ranks, Stopped, testing::Values(2, 3, 4));

// The rank whose timeout passes first names the missing one; the other rank then sees that rank leave.
TEST_F(ShmProcesses, AMissingRankIsNamed) {
  for (const int missing : {1, 2}) {
    const int there = 3 - missing;
    for (const int impatient : {0, there}) {
      renew();
      for (int rank = 0; rank < 3; ++rank) {
        start_one([&]() -> std::string {
          if (rank == missing) return "ended";
          shm_backend::make(options(rank, 3, rank == impatient ? milliseconds(200) : kLongWait));
          return "connected";
        });
      }
      EXPECT_EQ(outcome(impatient),
                fmt::format("connecting over shared memory: rank {} of 3: rank {} did not come (waited 200 ms)",
                            impatient, missing));
      const int patient = there - impatient;
      EXPECT_EQ(outcome(patient), fmt::format("connecting over shared memory: rank {} of 3: rank {} has left the group",
                                              patient, impatient));
      EXPECT_EQ(outcome(missing), "ended");
    }
  }
}

// Half a group: rank 1 is in the segment, and rank 0, which is to open it, does no more.
TEST_F(ShmProcesses, ARank0ThatEndsOrStopsBeforeAllHaveComeIsNamed) {
  for (const int signal : {SIGKILL, SIGSTOP}) {
    renew();
    start_one([this]() -> std::string {
      shm_backend::make(options(0, 2, kLongWait));
      return "connected";
    });
    wait_for_invitation();
    kill(pid(0), signal);
    start_one([this]() -> std::string {
      shm_backend::make(options(1, 2, milliseconds(300)));
      return "connected";
    });
    EXPECT_EQ(outcome(1),
              fmt::format("connecting over shared memory: rank 1 of 2: {}",
                          signal == SIGKILL ? "lost rank 0 (its process has ended)" : "waited 300 ms for rank 0"));
  }
}

// Rank 1 is in the segment and ends, while the others wait for the last rank, which never comes.
TEST_F(ShmProcesses, ARankThatEndsBeforeAllHaveComeIsNamedAtOnce) {
  for (const int size : {3, 4}) {
    renew();
    for (int rank = 0; rank < size - 1; ++rank) {
      start_one([&]() -> std::string {
        shm_backend::make(options(rank, size, kLongWait));
        return "connected";
      });
    }
    for (int rank = 1; rank < size - 1; ++rank) wait_for_presence(rank, size);
    const auto begin = steady_clock::now();
    kill(pid(1), SIGKILL);
    for (int rank = 0; rank < size - 1; ++rank) {
      if (rank == 1) continue;
      EXPECT_EQ(outcome(rank), fmt::format("connecting over shared memory: rank {} of {}: lost rank 1 (its process has "
                                           "ended)",
                                           rank, size));
    }
    EXPECT_LT(steady_clock::now() - begin, kLongWait / 2);
  }
}

TEST_F(ShmProcesses, ARankWithAnotherSecretIsNamed) {
  start(
      2, kLongWait, [](Communicator&) { return "connected"; },
      [](CommOptions& options) { options.secret = options.rank == 0 ? "sesame" : "guessed"; });
  EXPECT_EQ(outcome(0),
            "connecting over shared memory: rank 0 of 2: rank 1 has not proved that it knows the run's secret");
  EXPECT_EQ(outcome(1),
            "connecting over shared memory: rank 1 of 2: rank 0 has not proved that it knows the run's secret");
}

// Once all have come, not even names are left to be removed.
TEST_F(ShmProcesses, LeaveNothingWhenTheyAreKilled) {
  start(2, kLongWait, [](Communicator& comm) -> std::string {
    const SharedFloats shared(comm, 1000);
    const auto part = comm.split(0, -comm.rank());
    if (const std::string sum = test::sum_of_ranks(*part); sum != "right") return sum;
    raise(SIGKILL);
    return "";
  });
  const std::vector<pid_t> pids = {pid(0), pid(1)};
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(outcome(rank), fmt::format("killed by signal {}", SIGKILL));
  for (const pid_t pid : pids) EXPECT_THAT(segments_of(pid), testing::IsEmpty());
}

TEST_F(ShmProcesses, WhatAKilledStartLeavesIsCollected) {
  start_one([this]() -> std::string {
    shm_backend::make(options(0, 2, kLongWait));
    return "nobody was to come";
  });
  const pid_t killed = pid(0);
  wait_for_invitation();
  EXPECT_EQ(segments_of(killed).size(), 1U);
  kill(killed, SIGKILL);
  outcome(0);
  renew();
  start(2, kLongWait, [](Communicator& comm) { return test::sum_of_ranks(comm); });
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(outcome(rank), "right");
  EXPECT_THAT(segments_of(killed), testing::IsEmpty());
}

}  // namespace
}  // namespace mlbench::comm
