#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/process.h"
#include "mlbench/guard/channel.h"
#include "mlbench/guard/descendants.h"

namespace mlbench::guard {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr auto kPatience = 30s;

// A supervisor with one rank: a script of the shell. All that descends from it holds `lock`.
class GuardTest : public testing::Test {
 protected:
  GuardTest() { become_subreaper(); }

  void start(const std::string& script, const std::filesystem::path& directory = {}) {
    Listener listener;
    ProcessOptions options;
    options.arguments = {GUARD, "direct", "/bin/sh", "-c", script};
    options.environment = {{kAddressVariable, listener.address()},
                           {"RANK", "0"},
                           {"WORLD_SIZE", "1"},
                           {"LOCAL_RANK", "0"},
                           {"LOCAL_WORLD_SIZE", "1"}};
    options.output = folder_ / "guard.log";
    options.working_directory = directory;
    auto held = FileLock::acquire(folder_ / "lock", 0ms);
    guard_.emplace(ChildProcess::start(options));
    pollfd arrival{listener.fd(), POLLIN, 0};
    ASSERT_GT(poll(&arrival, 1, 30000), 0);
    channel_ = listener.accept();
    ASSERT_TRUE(channel_);
    EXPECT_EQ(channel_->peer(), guard_->pid());
    EXPECT_EQ(next(), "rank 0");
    channel_->send("start", (folder_ / "log").string(), {{held->fd()}});
    const std::string answer = next();
    ASSERT_EQ(answer.substr(0, 4), "pid ") << answer;
    rank_ = std::stoi(answer.substr(4));
  }

  std::string next() const {
    pollfd input{channel_->fd(), POLLIN, 0};
    if (poll(&input, 1, 30000) <= 0) return "nothing";
    Message message;
    return channel_->receive(message) == Channel::Status::kMessage ? message.word + " " + message.text : "closed";
  }

  void wait_for_log(const std::string& text) const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (read_file(folder_ / "log").find(text) == std::string::npos) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "the rank never said " << text;
      std::this_thread::sleep_for(10ms);
    }
  }

  // Everything that the rank started is gone, and the guard with it.
  void expect_nothing_left(int code) {
    const auto end = guard_->wait(kPatience);
    ASSERT_TRUE(end) << "the guard never ended";
    EXPECT_EQ(end->code, code) << read_file(folder_ / "guard.log");
    EXPECT_TRUE(FileLock::acquire(folder_ / "lock", 0ms)) << "somebody outlived the guard";
  }

  TemporaryFolder folder_;
  std::optional<ChildProcess> guard_;
  std::unique_ptr<Channel> channel_;
  pid_t rank_ = 0;
};

// A daemon: its own session, and an orphan at once.
const std::string kDaemon = "setsid sh -c 'trap \"\" TERM HUP; echo daemon; sleep 600 & wait' & ";

TEST_F(GuardTest, PassesOnTheExitCodeOnceItWasHeard) {
  start("echo $RANK of $WORLD_SIZE \"$MLBENCH_GUARD\"; exit 7");
  EXPECT_EQ(next(), "end 7 0");
  EXPECT_FALSE(guard_->wait(100ms)) << "a launcher would act on it";
  channel_.reset();
  expect_nothing_left(7);
  EXPECT_EQ(read_file(folder_ / "log"), "0 of 1 \n");
}

TEST_F(GuardTest, SaysWhichSignalEndedTheRank) {
  start("kill -SEGV $$");
  EXPECT_EQ(next(), "end 139 11");
}

TEST_F(GuardTest, SignalsReachTheRanksGroup) {
  start("trap 'echo heard; exit 3' USR1; echo ready; while :; do sleep 0.05; done");
  wait_for_log("ready");
  channel_->send("signal", std::to_string(SIGUSR1));
  EXPECT_EQ(next(), "end 3 0");
  EXPECT_THAT(read_file(folder_ / "log"), HasSubstr("heard\n"));
}

TEST_F(GuardTest, WhatARankLeavesBehindEndsWithIt) {
  start(kDaemon + "setsid sh -c 'echo stopped; kill -STOP $$' & sleep 600 & while [ ! -e go ]; do sleep 0.05; done",
        folder_.path());
  wait_for_log("daemon");
  wait_for_log("stopped");
  write_file_atomically(folder_ / "go", "");
  EXPECT_EQ(next(), "end 0 0");
  channel_.reset();
  expect_nothing_left(0);
}

TEST_F(GuardTest, AllEndsWithoutASupervisor) {
  start(kDaemon + "trap '' TERM; echo deaf; while :; do sleep 0.05; done");
  wait_for_log("daemon");
  wait_for_log("deaf");
  channel_.reset();
  expect_nothing_left(137);
}

TEST_F(GuardTest, ItsOwnSignalsAreTheRanks) {
  start("trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done");
  wait_for_log("ready");
  kill(guard_->pid(), SIGTERM);
  EXPECT_EQ(next(), "end 5 0");
}

TEST_F(GuardTest, ARankDoesNotEndItsGuardByItsGroup) {
  start("kill -KILL 0");
  EXPECT_EQ(next(), "end 137 9");
}

TEST_F(GuardTest, ProcessesThatForkOnAndOnEnd) {
  // Each starts the next one in a session of its own, and ends.
  start("echo 'sleep 0.01; setsid sh ./on &' > on; sh ./on; sh ./on; sh ./on; sleep 0.2", folder_.path());
  EXPECT_EQ(next(), "end 0 0");
  channel_.reset();
  expect_nothing_left(0);
}

TEST_F(GuardTest, OfAKilledGuardTheSupervisorEndsTheRest) {
  start(kDaemon + "echo ready; sleep 600");
  wait_for_log("daemon");
  wait_for_log("ready");
  kill(guard_->pid(), SIGKILL);
  EXPECT_EQ(next(), "closed");
  EXPECT_TRUE(wait_for_end(guard_->pid(), kPatience));
  EXPECT_TRUE(end_descendants({{guard_->pid()}}, kPatience));
  EXPECT_TRUE(FileLock::acquire(folder_ / "lock", 0ms));
}

TEST_F(GuardTest, KeptChildrenStay) {
  ProcessOptions options;
  options.arguments = {"/bin/sh", "-c", "sleep 600 & wait"};
  ChildProcess kept = ChildProcess::start(options), other = ChildProcess::start(options);
  EXPECT_TRUE(end_descendants({{kept.pid()}}, kPatience));
  EXPECT_EQ(kill(kept.pid(), 0), 0);
  EXPECT_NE(kill(other.pid(), 0), 0) << "and it was reaped";
  EXPECT_FALSE(kept.wait(0ms));
  kept.stop(1s);
}

TEST_F(GuardTest, SaysWhatItLacks) {
  const auto complaint = [&](std::vector<std::string> arguments) {
    ProcessOptions options;
    arguments.insert(arguments.begin(), GUARD);
    options.arguments = std::move(arguments);
    const ProcessOutput output = run_process(options, kPatience);
    EXPECT_EQ(output.end.code, static_cast<int>(ExitCode::kUserError));
    return output.standard_error;
  };
  EXPECT_THAT(complaint({}), HasSubstr("LAUNCHER COMMAND..."));
  EXPECT_THAT(complaint({"slurm", "true"}), HasSubstr("valid are direct, openmpi"));
  EXPECT_THAT(complaint({"openmpi", "true"}), HasSubstr("OMPI_COMM_WORLD_RANK is not set"));
  EXPECT_THROW(connect_to("tcp:host:1"), UserError);
  EXPECT_THROW(connect_to("unix:nobody-listens-there"), IoError);
}

}  // namespace
}  // namespace mlbench::guard
