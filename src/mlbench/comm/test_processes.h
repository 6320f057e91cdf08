#pragma once

// For the process tests of back ends: ranks as real processes that are killed, stopped, or missing. (Ranks are forked,
// not executed: such a test program has no threads of its own while it starts ranks.)

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/comm/communicator.h"
#include "mlbench/comm/test_stores.h"

namespace mlbench::comm::test {

class Processes : public testing::Test {
 protected:
  using Make = std::unique_ptr<Transport> (*)(const CommOptions&);
  static constexpr std::chrono::milliseconds kLongWait{60000};

  explicit Processes(Make make) : make_(make) { renew(); }
  ~Processes() override { end(); }

  // Ends all processes and begins with an empty store.
  void renew() {
    end();
    folder_.emplace();
  }
  const std::filesystem::path& folder() const { return folder_->path(); }

  CommOptions options(int rank, int size, std::chrono::milliseconds timeout) const {
    CommOptions options;
    options.rank = rank;
    options.size = size;
    options.store = std::make_shared<FileStore>(folder());
    options.timeout = timeout;
    return options;
  }

  // Starts all ranks. A rank's outcome is what `body` returns, or the error that it throws. Each rank calls `change`
  // before it joins.
  void start(int size, std::chrono::milliseconds timeout, const std::function<std::string(Communicator&)>& body,
             const std::function<void(CommOptions&)>& change = nullptr) {
    for (int rank = 0; rank < size; ++rank) {
      start_one([&] {
        CommOptions own = options(rank, size, timeout);
        if (change) change(own);
        Communicator communicator(make_(own));
        return body(communicator);
      });
    }
  }
  // Starts a process of its own, which counts as the next rank.
  void start_one(const std::function<std::string()>& body) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t pid = fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      close(ends[0]);
      std::string outcome;
      try {
        outcome = body();
      } catch (const std::exception& error) {
        outcome = error.what();
      }
      const ssize_t written = write(ends[1], outcome.data(), outcome.size());
      _exit(written == static_cast<ssize_t>(outcome.size()) ? 0 : 1);
    }
    close(ends[1]);
    ranks_.push_back({pid, ends[0]});
  }

  // Waits for the rank's end. Returns "killed by signal N" if the rank did not end by itself, and "still running" when
  // the patience runs out.
  std::string outcome(int rank) {
    Rank& process = ranks_[static_cast<size_t>(rank)];
    std::string text;
    const auto deadline = std::chrono::steady_clock::now() + kLongWait;
    while (true) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      pollfd readable{process.output, POLLIN, 0};
      if (left.count() <= 0 || poll(&readable, 1, static_cast<int>(left.count())) <= 0) return "still running";
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

  Make make_;
  std::optional<TemporaryFolder> folder_;
  std::vector<Rank> ranks_;
};

// All-reduces until something is wrong, and throws that error.
[[noreturn]] inline void reduce_forever(Communicator& comm, std::span<float> values,
                                        const std::function<void(int)>& before_round = nullptr) {
  for (int round = 0;; ++round) {
    if (before_round) before_round(round);
    std::fill(values.begin(), values.end(), static_cast<float>(comm.rank() + 1));
    comm.all_reduce(view_of(values), ReduceOp::kSum);
    const int sum = comm.size() * (comm.size() + 1) / 2;
    const auto expected = static_cast<float>(sum);
    for (const float value : values) {
      if (value != expected) throw InternalError(fmt::format("sum {} instead of {}", value, expected));
    }
  }
}

// Checks a sum over all ranks: "right", or how many elements are.
inline std::string sum_of_ranks(Communicator& comm, size_t count = 1000) {
  std::vector<float> values(count, static_cast<float>(comm.rank() + 1));
  comm.all_reduce(view_of(std::span(values)), ReduceOp::kSum);
  const int sum = comm.size() * (comm.size() + 1) / 2;
  const auto right = static_cast<size_t>(std::count(values.begin(), values.end(), static_cast<float>(sum)));
  return right == count ? "right" : fmt::format("{} of {} are right", right, count);
}

}  // namespace mlbench::comm::test
