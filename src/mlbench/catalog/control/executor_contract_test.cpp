// The contract of an executor, run for every row of the table, with and without mpirun below it. What is particular to
// one executor (its exact commands) is tested beside it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <thread>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/catalog/control/catalog.h"

namespace mlbench::catalog {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using exec::LaunchRequest;
using exec::RankGroup;
using testing::HasSubstr;
constexpr auto kPatience = 30s;

struct Case {
  ExecutorRow row;
  std::string backend;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const ExecutorRow& row : executors()) {
    for (const char* backend : {"gloo", "mpi"}) all.push_back({row, backend});
  }
  return all;
}

class ExecutorContractTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const Availability here = GetParam().row.available();
    if (!here.available) GTEST_SKIP() << "missing capability: " << here.reason;
    if (GetParam().backend == "mpi" && !program_exists("mpirun")) GTEST_SKIP() << "missing capability: mpirun";
  }

  LaunchRequest request(const std::string& script, int workers) const {
    LaunchRequest result;
    result.backend = GetParam().backend;
    result.guard = GUARD;
    result.command = {"/bin/sh", "-c", script};
    result.workers = workers;
    result.log_dir = dir_.path();
    return result;
  }

  std::map<int, ProcessEnd> wait_for_all(RankGroup& group) const {
    std::map<int, ProcessEnd> ends;
    const auto take = [&](std::chrono::milliseconds timeout) {
      for (const exec::RankExit& exit : group.poll(timeout)) {
        EXPECT_TRUE(ends.emplace(exit.rank, exit.end).second) << "rank " << exit.rank << " ended twice";
      }
    };
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    do {
      take(100ms);
    } while (group.running() && std::chrono::steady_clock::now() < deadline);
    take(0ms);
    EXPECT_FALSE(group.running());
    return ends;
  }

  fs::path log_path(int rank, int64_t segment = 1) const { return exec::rank_log_path(dir_.path(), segment, rank); }

  void wait_for_logs(int ranks, const std::string& text) const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (int rank = 0; rank < ranks; ++rank) {
      while (!fs::exists(log_path(rank)) || read_file(log_path(rank)).find(text) == std::string::npos) {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "rank " << rank << " never said " << text;
        std::this_thread::sleep_for(10ms);
      }
    }
  }

  // A script's first words: it, and all that it starts, holds a lock until it ends.
  std::string holding() const { return "exec 9>>" + lock().string() + "; flock -s 9 || exit 1; "; }
  fs::path lock() const { return dir_ / "held"; }
  bool nobody_is_left() const { return FileLock::acquire(lock(), kPatience).has_value(); }

  TemporaryFolder dir_;
  std::unique_ptr<exec::Executor> executor_ = GetParam().row.make();
};

TEST_P(ExecutorContractTest, ThePlanSaysWhatIsStartedAndStartsNothing) {
  LaunchRequest plan = request("touch " + (dir_ / "started").string(), 2);
  plan.environment = {{"EXTRA", "words with space"}};
  const std::vector<std::string> lines = executor_->describe(plan);
  ASSERT_TRUE(lines.size() == 1 || lines.size() == 2) << "one line in all, or one per rank";
  for (const std::string& line : lines) {
    EXPECT_THAT(line, HasSubstr("EXTRA='words with space'"));
    EXPECT_THAT(line, HasSubstr(GUARD));
    EXPECT_THAT(line, HasSubstr("/bin/sh -c 'touch "));
  }
  EXPECT_EQ(executor_->describe(plan), lines);
  EXPECT_TRUE(fs::is_empty(dir_.path()));
}

TEST_P(ExecutorContractTest, RanksSeeTheirPlaceAndLog) {
  LaunchRequest launch = request("echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $EXTRA; echo oops >&2", 3);
  launch.environment = {{"EXTRA", "words with space"}};
  launch.segment = 2;
  const auto ends = wait_for_all(*executor_->start(launch));
  ASSERT_EQ(ends.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ends.at(rank).code, 0);
    const std::string r = std::to_string(rank);
    EXPECT_EQ(read_file(log_path(rank, 2)), r + "/3 " + r + "/3 words with space\noops\n");
  }
}

TEST_P(ExecutorContractTest, RanksStartWhereTheyAreTold) {
  LaunchRequest launch = request("pwd -P", 2);
  launch.working_directory = dir_ / "there";
  fs::create_directory(launch.working_directory);
  wait_for_all(*executor_->start(launch));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(read_file(log_path(rank)), fs::canonical(launch.working_directory).string() + "\n");
  }
}

TEST_P(ExecutorContractTest, ReportsCodesAndSignals) {
  const auto ends = wait_for_all(*executor_->start(request("[ $RANK = 1 ] && kill -9 $$; exit $((RANK + 5))", 3)));
  ASSERT_EQ(ends.size(), 3u);
  EXPECT_EQ(ends.at(0).code, 5);
  EXPECT_FALSE(ends.at(0).signal);
  EXPECT_EQ(ends.at(1).code, 137);
  EXPECT_EQ(ends.at(1).signal, SIGKILL);
  EXPECT_EQ(ends.at(2).code, 7);
}

TEST_P(ExecutorContractTest, LosingOneRankLeavesTheOthers) {
  const auto group = executor_->start(request("[ $RANK = 1 ] && kill -9 $$; exec sleep 600", 3));
  const auto exits = group->poll(kPatience);
  ASSERT_EQ(exits.size(), 1u);
  EXPECT_EQ(exits[0].rank, 1);
  EXPECT_TRUE(group->running());
  EXPECT_THAT(group->poll(200ms), testing::IsEmpty());
  EXPECT_FALSE(group->launcher_death());
  ASSERT_EQ(group->pids().size(), 3u);
  EXPECT_FALSE(group->pids()[1]);
}

TEST_P(ExecutorContractTest, SignalsReachAllRanks) {
  const auto group = executor_->start(request("trap 'exit 40' USR1; echo ready; while :; do sleep 0.05; done", 2));
  wait_for_logs(2, "ready");
  group->signal_all(SIGUSR1);
  const auto ends = wait_for_all(*group);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends.at(0).code, 40);
  EXPECT_EQ(ends.at(1).code, 40);
}

TEST_P(ExecutorContractTest, StopsWithTermThenKill) {
  // Rank 0 ends on SIGTERM, rank 1 ignores it, rank 2 is stopped and would end on SIGTERM.
  const auto group = executor_->start(request(
      "if [ $RANK = 1 ]; then trap '' TERM; else trap 'exit 30' TERM; fi; echo ready; [ $RANK = 2 ] && kill -STOP $$; "
      "while :; do sleep 0.05; done",
      3));
  wait_for_logs(3, "ready");
  group->stop(3s);
  EXPECT_FALSE(group->running());
  const auto ends = wait_for_all(*group);
  ASSERT_EQ(ends.size(), 3u);
  EXPECT_EQ(ends.at(0).code, 30);
  EXPECT_EQ(ends.at(1).code, 137);
  EXPECT_EQ(ends.at(2).code, 30);
}

TEST_P(ExecutorContractTest, DestructionLeavesNoOrphan) {
  // What a rank started goes with it, whatever session it is in.
  auto group =
      executor_->start(request(holding() + "trap '' TERM; sleep 600 & setsid sleep 600 & echo ready; wait", 2));
  wait_for_logs(2, "ready");
  EXPECT_FALSE(FileLock::acquire(lock(), 0ms)) << "the ranks hold it";
  group.reset();
  EXPECT_TRUE(nobody_is_left());
}

TEST_P(ExecutorContractTest, ARanksEndLeavesNoOrphan) {
  const auto group = executor_->start(request(holding() + "setsid sleep 600 & echo ready; exit 0", 2));
  wait_for_all(*group);
  EXPECT_TRUE(nobody_is_left());
}

TEST_P(ExecutorContractTest, AProgramThatIsMissingIsAnErrorThatNamesIt) {
  LaunchRequest launch = request("", 2);
  launch.command = {(dir_ / "no-such-worker").string()};
  EXPECT_THAT([&] { executor_->start(launch); }, testing::ThrowsMessage<IoError>(HasSubstr("no-such-worker")));
}

TEST_P(ExecutorContractTest, AStartThatFailsLeavesNoOrphan) {
  fs::create_directory(log_path(1));  // rank 1 cannot start: its log file is a folder
  EXPECT_THROW(executor_->start(request(holding() + "exec sleep 600", 2)), IoError);
  EXPECT_TRUE(nobody_is_left());
}

TEST_P(ExecutorContractTest, GroupsFollowEachOther) {
  for (int64_t segment = 1; segment <= 3; ++segment) {
    LaunchRequest launch = request("exit 0", 1);
    launch.segment = segment;
    EXPECT_EQ(wait_for_all(*executor_->start(launch)).size(), 1u);
    EXPECT_TRUE(fs::exists(log_path(0, segment)));
  }
}

INSTANTIATE_TEST_SUITE_P(Executors, ExecutorContractTest, testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.row.name) + "_" + info.param.backend; });

// Words that each rank has its own: under mpirun there are none (the command line refuses them).
TEST(ExecutorContract, RankWordsAreFilledIn) {
  for (const ExecutorRow& row : executors()) {
    LaunchRequest request;
    request.backend = "gloo";
    request.guard = GUARD;
    request.command = {"/bin/echo", "rank-{rank}-of-2"};
    request.rank_words = true;
    request.workers = 2;
    const auto lines = row.make()->describe(request);
    ASSERT_EQ(lines.size(), 2u) << row.name;
    EXPECT_THAT(lines[0], HasSubstr("rank-0-of-2")) << row.name;
    EXPECT_THAT(lines[1], HasSubstr("rank-1-of-2")) << row.name;
  }
}

}  // namespace
}  // namespace mlbench::catalog
