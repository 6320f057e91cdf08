// Ranks as real processes that are killed, stopped, or missing. (They are forked, not executed: this program has no
// threads of its own.)

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <thread>

#include "mlbench/base/files.h"
#include "mlbench/comm/gloo/gloo.h"
#include "mlbench/net/test_stranger.h"

namespace mlbench::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::StartsWith;

constexpr milliseconds kPatience{60000};

// One file per key in a folder.
class FileStore final : public RendezvousStore {
 public:
  explicit FileStore(std::filesystem::path folder) : folder_(std::move(folder)) {}
  void set(const std::string& key, const std::string& value) override {
    const auto place = path(key);
    std::ofstream(place.string() + ".part", std::ios::binary) << value;
    std::filesystem::rename(place.string() + ".part", place);
  }
  std::string get(const std::string& key, milliseconds timeout) override {
    const auto deadline = steady_clock::now() + timeout;
    while (!std::filesystem::exists(path(key))) {
      if (steady_clock::now() > deadline) throw CommError(fmt::format("waited {} ms for key {}", timeout.count(), key));
      std::this_thread::sleep_for(milliseconds(1));
    }
    std::ostringstream text;
    text << std::ifstream(path(key), std::ios::binary).rdbuf();
    return text.str();
  }

 private:
  std::filesystem::path path(const std::string& key) const {
    std::string name = key;
    std::replace(name.begin(), name.end(), '/', '_');
    return folder_ / name;
  }
  std::filesystem::path folder_;
};

class Processes : public testing::Test {
 protected:
  Processes() { renew(); }
  ~Processes() override { end(); }

  // Ends what runs and begins with an empty store.
  void renew() {
    end();
    folder_.emplace();
  }

  CommOptions options(int rank, int size, milliseconds timeout) const {
    CommOptions options;
    options.rank = rank;
    options.size = size;
    options.store = std::make_shared<FileStore>(folder_->path());
    options.timeout = timeout;
    return options;
  }

  // Starts all ranks; what `body` returns, or the error that it throws, is the rank's outcome.
  void start(int size, milliseconds timeout, const std::function<std::string(Communicator&)>& body,
             const std::function<void(CommOptions&)>& change = nullptr) {
    for (int rank = 0; rank < size; ++rank) {
      int ends[2];
      ASSERT_EQ(pipe(ends), 0);
      const pid_t pid = fork();
      ASSERT_GE(pid, 0);
      if (pid == 0) {
        close(ends[0]);
        std::string outcome;
        try {
          if (rank == size - 1 && last_waits_) wait_for_knocks();
          CommOptions own = options(rank, size, timeout);
          if (change) change(own);
          Communicator communicator(gloo_backend::make(own));
          outcome = body(communicator);
        } catch (const std::exception& error) {
          outcome = error.what();
        }
        const ssize_t written = write(ends[1], outcome.data(), outcome.size());
        _exit(written == static_cast<ssize_t>(outcome.size()) ? 0 : 1);
      }
      close(ends[1]);
      ranks_.push_back({pid, ends[0]});
    }
  }

  // Waits for the rank's end. "killed by signal N" if it did not end by itself, "still running" when patience runs out.
  std::string outcome(int rank) {
    Rank& process = ranks_[static_cast<size_t>(rank)];
    std::string text;
    const auto deadline = steady_clock::now() + kPatience;
    while (true) {
      const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now()).count();
      pollfd readable{process.output, POLLIN, 0};
      if (left <= 0 || poll(&readable, 1, static_cast<int>(left)) <= 0) return "still running";
      char buffer[4096];
      const ssize_t bytes = read(process.output, buffer, sizeof buffer);
      if (bytes <= 0) break;
      text.append(buffer, static_cast<size_t>(bytes));
    }
    close(process.output);
    int status = 0;
    waitpid(process.pid, &status, 0);
    process.pid = 0;
    return WIFSIGNALED(status) ? fmt::format("killed by signal {}", WTERMSIG(status)) : text;
  }

  pid_t pid(int rank) const { return ranks_[static_cast<size_t>(rank)].pid; }

  // Until somebody has connected to the ranks that listen already.
  void wait_for_knocks() const {
    const auto deadline = steady_clock::now() + kPatience;
    while (!has_knocked() && steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(1));
    }
  }
  void expect_knocks(const test::Stranger& stranger) {
    const auto deadline = steady_clock::now() + kPatience;
    while (stranger.connections() < 12 && steady_clock::now() < deadline) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_GE(stranger.connections(), 12) << "the stranger found no port";
    std::ofstream(knocked()) << "";
  }
  bool has_knocked() const { return std::filesystem::exists(knocked()); }
  bool last_waits_ = false;

 private:
  struct Rank {
    pid_t pid;
    int output;
  };

  void end() {
    for (const Rank& rank : ranks_) {
      if (rank.pid == 0) continue;
      kill(rank.pid, SIGKILL);
      waitpid(rank.pid, nullptr, 0);
      close(rank.output);
    }
    ranks_.clear();
  }

  std::filesystem::path knocked() const { return folder_->path() / "knocked"; }

  std::optional<TemporaryFolder> folder_;
  std::vector<Rank> ranks_;
};

// All-reduces until something is wrong, which it throws.
[[noreturn]] void reduce_forever(Communicator& comm, size_t count,
                                 const std::function<void(int)>& before_round = nullptr) {
  std::vector<float> values(count);
  for (int round = 0;; ++round) {
    if (before_round) before_round(round);
    values.assign(count, static_cast<float>(comm.rank() + 1));
    comm.all_reduce(view_of(std::span(values)), ReduceOp::kSum);
    const int sum = comm.size() * (comm.size() + 1) / 2;
    const auto expected = static_cast<float>(sum);
    for (const float value : values) {
      if (value != expected) throw InternalError(fmt::format("sum {} instead of {}", value, expected));
    }
  }
}

// Whoever has its result may end: the others still get theirs.
TEST_F(Processes, LeaveAfterTheLastOperation) {
  for (const int size : {2, 3, 5}) {
    renew();
    start(size, kPatience, [size](Communicator& comm) {
      std::vector<float> values(500000, static_cast<float>(comm.rank() + 1));
      comm.all_reduce(view_of(std::span(values)), ReduceOp::kSum);
      const int sum = size * (size + 1) / 2;
      const auto expected = static_cast<float>(sum);
      const bool right = std::count(values.begin(), values.end(), expected) == 500000;
      return std::string(right ? "right" : "wrong");
    });
    for (int rank = 0; rank < size; ++rank) EXPECT_EQ(outcome(rank), "right") << size << " ranks, rank " << rank;
  }
}

class Killed : public Processes, public testing::WithParamInterface<int> {};

// The others see it at once, not at the timeout, and survive writing to the lost connection.
TEST_P(Killed, BetweenSmallOperations) {
  const int size = GetParam();
  const auto begin = steady_clock::now();
  start(size, kPatience, [size](Communicator& comm) -> std::string {
    reduce_forever(comm, 100, [&](int round) {
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
  EXPECT_LT(steady_clock::now() - begin, kPatience / 2);
}

TEST_P(Killed, InTheMiddleOfALargeOne) {
  const int size = GetParam();
  const auto begin = steady_clock::now();
  start(size, kPatience, [](Communicator& comm) -> std::string { reduce_forever(comm, 4'000'000); });
  std::this_thread::sleep_for(milliseconds(300));
  kill(pid(0), SIGKILL);
  for (int rank = 1; rank < size; ++rank) {
    EXPECT_THAT(outcome(rank),
                ContainsRegex(fmt::format("rank {} of {}: (lost rank|rank 0 did not come)", rank, size)));
  }
  EXPECT_LT(steady_clock::now() - begin, kPatience / 2);
}

TEST_P(Killed, WhileAnotherWaitsForItsMessage) {
  const int size = GetParam();
  start(size, kPatience, [size](Communicator& comm) -> std::string {
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

class Stopped : public Processes, public testing::WithParamInterface<int> {};

TEST_P(Stopped, OthersThrowAtTheTimeout) {
  const int size = GetParam();
  constexpr milliseconds kTimeout{400};
  start(size, kTimeout, [size](Communicator& comm) -> std::string {
    reduce_forever(comm, 1'000'000, [&](int round) {
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

TEST_F(Processes, AMissingRankIsNamed) {
  start(1, kPatience, [this](Communicator&) -> std::string {
    gloo_backend::make(options(0, 2, milliseconds(100)));
    return "connected";
  });
  EXPECT_THAT(outcome(0), StartsWith("connecting with Gloo: rank 0 of 2: rank 1 did not come (waited 100 ms"));
}

// Whether a sum over all is right.
std::string sum_of_ranks(Communicator& comm) {
  std::vector<float> values(1000, static_cast<float>(comm.rank() + 1));
  comm.all_reduce(view_of(std::span(values)), ReduceOp::kSum);
  const int sum = comm.size() * (comm.size() + 1) / 2;
  const auto right = std::count(values.begin(), values.end(), static_cast<float>(sum));
  return right == 1000 ? "right" : fmt::format("{} of 1000 are right", right);
}

class BesideAStranger : public Processes, public testing::WithParamInterface<int> {};

TEST_P(BesideAStranger, AGroupComesUpAndComputes) {
  const int size = GetParam();
  last_waits_ = true;
  start(size, kPatience, sum_of_ranks);
  const test::Stranger stranger;
  expect_knocks(stranger);
  for (int rank = 0; rank < size; ++rank) EXPECT_EQ(outcome(rank), "right") << "rank " << rank;
}

TEST_P(BesideAStranger, SoDoItsParts) {
  const int size = GetParam();
  start(size, kPatience, [this](Communicator& comm) -> std::string {
    const auto all = comm.split(0, -comm.rank());
    // Ports are open for moments: as often as the stranger needs to find some.
    std::vector<int32_t> knocks = {0};
    do {
      const auto part = all->split(0, comm.rank());
      if (const std::string sum = sum_of_ranks(*part); sum != "right") return sum;
      knocks[0] = has_knocked() ? 1 : 0;
      comm.all_reduce(view_of(std::span(knocks)), ReduceOp::kSum);
    } while (knocks[0] < comm.size());
    return "right";
  });
  const test::Stranger stranger;
  expect_knocks(stranger);
  for (int rank = 0; rank < size; ++rank) EXPECT_EQ(outcome(rank), "right") << "rank " << rank;
}

INSTANTIATE_TEST_SUITE_P(Ranks, BesideAStranger, testing::Values(2, 3));

TEST_F(Processes, ARankWithAnotherSecretIsNamed) {
  start(
      2, milliseconds(500), [](Communicator&) { return "connected"; },
      [](CommOptions& options) { options.secret = options.rank == 0 ? "sesame" : "guessed"; });
  EXPECT_THAT(outcome(0), StartsWith("connecting with Gloo: rank 0 of 2: rank 1 has not proved within 0.5 s"));
  EXPECT_THAT(outcome(1), ContainsRegex("rank 1 of 2: (rank 0 has not proved|lost rank 0)"));
}

// Neither when all goes well nor when a rank is killed.
TEST_F(Processes, LeaveNoTemporaryFile) {
  const TemporaryFolder folder;
  setenv("TMPDIR", folder.path().c_str(), 1);
  start(2, kPatience, [](Communicator& comm) -> std::string {
    sum_of_ranks(comm);
    raise(SIGKILL);
    return "";
  });
  for (int rank = 0; rank < 2; ++rank) outcome(rank);
  unsetenv("TMPDIR");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST_F(Processes, ListensOnAnAddressOrAnInterface) {
  for (const std::string address : {"127.0.0.1", "localhost", "lo"}) {
    renew();
    start(1, kPatience, [&](Communicator&) {
      std::vector<std::thread> ranks;
      std::vector<int32_t> values = {1, 2};
      for (int rank = 0; rank < 2; ++rank) {
        ranks.emplace_back([&, rank] {
          CommOptions here = options(rank, 2, kPatience);
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

TEST_F(Processes, AWrongAddressIsNamed) {
  CommOptions wrong = options(0, 2, kPatience);
  wrong.bind_address = "no-such-interface.invalid";
  start(1, kPatience, [&](Communicator&) -> std::string {
    gloo_backend::make(wrong);
    return "connected";
  });
  EXPECT_THAT(outcome(0), StartsWith("Gloo cannot listen on no-such-interface.invalid"));
}

}  // namespace
}  // namespace mlbench::comm
