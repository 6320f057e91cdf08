// The contract of an executor, run for every row of the table, with and without mpirun below it. Tests beside each
// executor cover what only it has (its exact commands).

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "mlbench/base/clock.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/base/text.h"
#include "mlbench/catalog/control/catalog.h"
#include "mlbench/catalog/options/options.h"
#include "mlbench/catalog/programs/programs.h"
#include "mlbench/exec/horovod.h"
#include "mlbench/exec/kubernetes/test_fake_kubernetes.h"
#include "mlbench/exec/linked.h"
#include "mlbench/exec/local/local.h"
#include "mlbench/exec/slurm/test_fake_slurm.h"
#include "mlbench/exec/test_executor.h"
#include "mlbench/exec/test_fake_podman.h"
#include "mlbench/exec/test_linked_executor.h"
#include "mlbench/exec/test_links.h"

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

// An executor whose engine lets ranks wait, for which the contract holds, too.
std::unique_ptr<exec::Executor> make_queueing(const Json& /*engine*/) {
  exec::EngineScript script;
  script.lines = {{exec::StartState::kQueued, "PENDING (Priority)", 2},
                  {exec::StartState::kStarting, "CONFIGURING", 1},
                  {exec::StartState::kQueued, "PENDING (Resources)", 2}};
  return std::make_unique<exec::ScriptedExecutor>(exec::local::make(), script);
}

std::unique_ptr<exec::Executor> make_linked(const Json& /*engine*/) { return std::make_unique<exec::LinkedExecutor>(); }

// Ranks of this host in containers.
std::unique_ptr<exec::Executor> make_in_image(const Json& engine) {
  Json with_image = engine;
  with_image["image"] = "here";
  return exec::local::make(with_image);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  std::vector<ExecutorRow> rows(executors().begin(), executors().end());
  rows.push_back({"queueing", "", {}, {}, exec::local::available, make_queueing});
  for (const ExecutorRow& row : rows) {
    for (const char* backend : {"gloo", "mpi"}) all.push_back({row, backend});
  }
  all.push_back({{"image", "", {}, {}, exec::local::available, make_in_image}, "gloo"});
  all.push_back({{"linked", "", {}, {}, exec::local::available, make_linked}, "gloo"});
  return all;
}

class ExecutorContractTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    // A Slurm whose one node is this host.
    if (row_name() == "slurm") fake_slurm_.emplace(FAKE_SLURM);
    if (row_name() == "image") fake_podman_.emplace(FAKE_PODMAN);
    if (row_name() == "kubernetes") fake_kubernetes_.emplace(GUARD, scratch_.path());
    executor_ = GetParam().row.make(engine());
    const Availability here = GetParam().row.available();
    if (!here.available) GTEST_SKIP() << "missing capability: " << here.reason;
    if (GetParam().backend == "mpi" && !program_exists("mpirun")) GTEST_SKIP() << "missing capability: mpirun";
    fs::create_directory(logs());
  }

  std::string row_name() const { return GetParam().row.name; }
  // Options with which all ranks run on this host.
  Json engine() const {
    Json engine = Json::object();
    if (row_name() == "mpirun") engine["hosts"] = "localhost:8";
    if (takes(row_name(), "scratch")) engine["scratch"] = scratch_.path().string();
    if (facts_of(row_name()).in_images) engine["image"] = "worker:1";
    return engine;
  }

  LaunchRequest request(const std::string& script, int workers) const {
    LaunchRequest result;
    result.backend = GetParam().backend;
    result.by_mpirun = backend_facts(result.backend).needs_mpirun;
    result.guard = GUARD;
    result.command = {"/bin/sh", "-c", script};
    result.workers = workers;
    result.log_dir = logs();
    return result;
  }

  // Adds links and a rendezvous for each start, as a supervisor does for ranks on other hosts.
  LaunchRequest with_links(LaunchRequest launch) {
    launch.links.folder = logs();
    launch.links.secret = "sesame";
    if (executor_->on_this_host()) return launch;
    launch.environment["MLBENCH_RUN_ID"] = "1";
    links_.emplace(launch);
    return launch;
  }

  std::unique_ptr<RankGroup> start(const LaunchRequest& launch) {
    return exec::start_and_wait(*executor_, with_links(launch), kPatience);
  }

  std::map<int, ProcessEnd> wait_for_all(RankGroup& group) const {
    std::map<int, ProcessEnd> ends;
    const auto take = [&](std::chrono::milliseconds timeout) {
      for (const exec::RankExit& exit : exec::only<exec::RankExit>(group.poll(timeout))) {
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

  fs::path log_path(int rank, int64_t segment = 1, LogStream stream = LogStream::kStdout) const {
    return rank_log_path(logs(), segment, rank, stream);
  }
  fs::path logs() const { return dir_ / "logs"; }

  void wait_for_logs(int ranks, const std::string& text) const {
    for (int rank = 0; rank < ranks; ++rank) exec::wait_for_log(rank, text, logs());
  }

  // The first words of a script: the script, and all that it starts, holds a lock until it ends.
  std::string holding() const { return "exec 9>>" + lock().string() + "; flock -s 9 || exit 1; "; }
  fs::path lock() const { return dir_ / "held"; }
  bool nobody_is_left() const { return FileLock::acquire(lock(), kPatience).has_value(); }

  TemporaryFolder dir_, scratch_;
  std::optional<exec::slurm::FakeSlurm> fake_slurm_;
  std::optional<exec::FakePodman> fake_podman_;
  std::optional<exec::kubernetes::FakeKubernetes> fake_kubernetes_;
  std::optional<exec::TestLinks> links_;
  std::unique_ptr<exec::Executor> executor_;
};

TEST_P(ExecutorContractTest, ThePlanSaysWhatIsStartedAndStartsNothing) {
  LaunchRequest plan = request("touch " + (dir_ / "started").string(), 2);
  plan.environment = {{"EXTRA", "words with space"}};
  const std::vector<std::string> lines = executor_->describe(plan);
  ASSERT_TRUE(lines.size() == 1 || lines.size() == 2) << "one line in all, or one per rank";
  for (const std::string& line : lines) {
    EXPECT_THAT(line, HasSubstr("EXTRA='words with space'"));
    EXPECT_THAT(line, HasSubstr(executor_->in_images() ? "mlbench-guard" : GUARD));
    EXPECT_THAT(line, HasSubstr("/bin/sh -c 'touch "));
  }
  EXPECT_EQ(executor_->describe(plan), lines);
  EXPECT_TRUE(fs::is_empty(logs()));
  EXPECT_FALSE(fs::exists(dir_ / "started"));
}

TEST_P(ExecutorContractTest, RanksSeeTheirPlaceAndLogs) {
  LaunchRequest launch = request("echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $EXTRA; echo oops >&2", 3);
  launch.environment = {{"EXTRA", "words with space"}};
  launch.segment = 2;
  const auto ends = wait_for_all(*start(launch));
  ASSERT_EQ(ends.size(), 3u);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ends.at(rank).code, 0);
    const std::string r = std::to_string(rank);
    const std::string on_its_host = executor_->in_images() ? "0/1" : r + "/3";  // a container is a host of its own
    EXPECT_EQ(read_file(log_path(rank, 2)), r + "/3 " + on_its_host + " words with space\n");
    EXPECT_EQ(read_file(log_path(rank, 2, LogStream::kStderr)), "oops\n");
  }
}

// Ranks of a user's command get what they need to find each other.
TEST_P(ExecutorContractTest, RanksOfACommandAreToldOfEachOther) {
  const bool here = executor_->on_this_host() || row_name() == "queueing";  // the engine starts local's ranks
  if (here && GetParam().backend == "mpi") return;                          // mpirun tells them
  LaunchRequest launch = request(
      "echo $RANK {hosts} $MASTER_ADDR:$MASTER_PORT $HOROVOD_CONTROLLER $HOROVOD_RANK/$HOROVOD_SIZE "
      "$HOROVOD_LOCAL_RANK/$HOROVOD_LOCAL_SIZE $HOROVOD_CROSS_RANK/$HOROVOD_CROSS_SIZE",
      2);
  launch.rank_words = true;
  if (here) {  // as the supervisor does
    fill_in(launch.command, "{hosts}", "127.0.0.1,127.0.0.1");
    launch.environment = {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "4711"}};
    exec::add_horovod(launch);
  }
  wait_for_all(*start(launch));
  const std::string host = executor_->in_images() ? "[-a-z0-9.]+" : "[a-z0-9.]+";
  const bool alone = executor_->in_images();  // a container is a host of its own
  for (int rank = 0; rank < 2; ++rank) {
    const std::string r = std::to_string(rank);
    const std::string horovod = GetParam().backend == "mpi" ? "mpi / / /"
                                : alone                     ? "gloo " + r + "/2 0/1 " + r + "/2"
                                                            : "gloo " + r + "/2 " + r + "/2 0/1";
    EXPECT_THAT(read_file(log_path(rank)),
                testing::MatchesRegex(r + " " + host + "," + host + " " + host + ":[1-9][0-9]+ " + horovod + "\n"));
  }
}

TEST_P(ExecutorContractTest, ThePlacementIsWhatRanksSee) {
  const auto group = start(request("echo $LOCAL_RANK; exec sleep 600", 3));
  const std::vector<exec::Placement> places = group->placement();
  ASSERT_EQ(places.size(), 3u);
  wait_for_logs(3, "\n");
  std::map<std::string, std::set<int>> local_ranks;
  for (int rank = 0; rank < 3; ++rank) {
    const exec::Placement& place = places[static_cast<size_t>(rank)];
    EXPECT_EQ(place.rank, rank);
    EXPECT_NE(place.host, "");
    EXPECT_EQ(read_file(log_path(rank)), std::to_string(place.local_rank) + "\n");
    EXPECT_TRUE(local_ranks[place.host].insert(place.local_rank).second) << "two ranks in one place";
    EXPECT_TRUE(std::is_sorted(place.cores.begin(), place.cores.end()));
  }
}

TEST_P(ExecutorContractTest, RanksStartWhereTheyAreTold) {
  LaunchRequest launch = request("pwd -P", 2);
  launch.working_directory = dir_ / "there";
  fs::create_directory(launch.working_directory);
  wait_for_all(*start(launch));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(read_file(log_path(rank)), fs::canonical(launch.working_directory).string() + "\n");
  }
}

TEST_P(ExecutorContractTest, ReportsCodesAndSignals) {
  const auto ends = wait_for_all(*start(request("[ $RANK = 1 ] && kill -9 $$; exit $((RANK + 5))", 3)));
  ASSERT_EQ(ends.size(), 3u);
  EXPECT_EQ(ends.at(0).code, 5);
  EXPECT_FALSE(ends.at(0).signal);
  EXPECT_EQ(ends.at(1).code, 137);
  EXPECT_EQ(ends.at(1).signal, SIGKILL);
  EXPECT_EQ(ends.at(2).code, 7);
}

TEST_P(ExecutorContractTest, LosingOneRankLeavesTheOthers) {
  const auto group = start(request("[ $RANK = 1 ] && kill -9 $$; exec sleep 600", 3));
  const auto exits = exec::next_of<exec::RankExit>(*group, kPatience);
  ASSERT_EQ(exits.size(), 1u);
  EXPECT_EQ(exits[0].rank, 1);
  EXPECT_TRUE(group->running());
  EXPECT_THAT(group->poll(200ms), testing::IsEmpty());
  ASSERT_EQ(group->pids().size(), 3u);
  EXPECT_FALSE(group->pids()[1]);
}

TEST_P(ExecutorContractTest, SignalsReachAllRanks) {
  const auto group = start(request("trap 'exit 40' USR1; echo ready; while :; do sleep 0.05; done", 2));
  wait_for_logs(2, "ready");
  group->signal_all(SIGUSR1);
  const auto ends = wait_for_all(*group);
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends.at(0).code, 40);
  EXPECT_EQ(ends.at(1).code, 40);
}

TEST_P(ExecutorContractTest, SaysWhatRanksUse) {
  const auto group = start(request("if [ $RANK = 1 ]; then exec sleep 600; fi; sh -c 'while :; do :; done'; :", 2));
  exec::GroupUsage usage;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  do {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "what the ranks use was never known";
    EXPECT_TRUE(group->poll(100ms).empty());
    usage = group->usage();
    ASSERT_EQ(usage.ranks.size(), 2u);
  } while (!usage.ranks[0] || !usage.ranks[1] || usage.ranks[0]->cpu_s < 0.5);
  EXPECT_LT(usage.ranks[0]->cpu_s, to_seconds(kPatience));
  EXPECT_LT(usage.ranks[1]->cpu_s, 0.5);
  for (const auto& rank : usage.ranks) {
    EXPECT_GT(rank->memory_bytes, 100 << 10);
    EXPECT_LT(rank->memory_bytes, 200 << 20);
    EXPECT_LT(rank->age, kPatience);
  }
  EXPECT_GE(usage.cores, 1);
  EXPECT_LE(usage.cores, 2 * available_cores());
  group->stop(3s);
  usage = group->usage();
  EXPECT_FALSE(usage.ranks.at(0) || usage.ranks.at(1)) << "they have ended";
}

TEST_P(ExecutorContractTest, StopsWithTermThenKill) {
  // Rank 0 ends on SIGTERM, rank 1 ignores it, rank 2 is stopped and would end on SIGTERM.
  const auto group = start(request(
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
  // What a rank started ends with the rank, whatever its session is.
  auto group = start(request(holding() + "trap '' TERM; sleep 600 & setsid sleep 600 & echo ready; wait", 2));
  wait_for_logs(2, "ready");
  EXPECT_FALSE(FileLock::acquire(lock(), 0ms)) << "the ranks hold it";
  group.reset();
  EXPECT_TRUE(nobody_is_left());
}

TEST_P(ExecutorContractTest, ARanksEndLeavesNoOrphan) {
  const auto group = start(request(holding() + "setsid sleep 600 & echo ready; exit 0", 2));
  wait_for_all(*group);
  EXPECT_TRUE(nobody_is_left());
}

TEST_P(ExecutorContractTest, WhatCanStartHasNoObstacle) {
  EXPECT_EQ(executor_->obstacle(with_links(request("true", 2))), "");
}

TEST_P(ExecutorContractTest, AProgramThatIsMissingIsAnErrorThatNamesIt) {
  LaunchRequest launch = request("", 2);
  launch.command = {(dir_ / "no-such-worker").string()};
  EXPECT_THAT([&] { start(launch); }, testing::ThrowsMessage<IoError>(HasSubstr("no-such-worker")));
}

TEST_P(ExecutorContractTest, AStartThatFailsLeavesNoOrphan) {
  fs::create_directory(log_path(1));  // rank 1 cannot start: its log file is a folder
  const LaunchRequest launch = request(holding() + "exec sleep 600", 2);
  const fs::path scratch = exec::folder_on_hosts(with_links(launch), scratch_.path());
  for (const fs::path& there : {exec::LinkedExecutor::there(logs()), scratch}) {
    fs::create_directories(there / log_path(1).filename());
  }
  EXPECT_THROW(start(launch), IoError);
  EXPECT_TRUE(nobody_is_left());
}

TEST_P(ExecutorContractTest, AStartThatIsDroppedLeavesNoOrphan) {
  const auto begin = [&] { return executor_->start(with_links(request(holding() + "sleep 600 & exec sleep 600", 2))); };
  begin().reset();
  EXPECT_TRUE(nobody_is_left());
  auto start = begin();
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (start->poll(10ms).state != exec::StartState::kStarted) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  start.reset();
  EXPECT_TRUE(nobody_is_left());
}

TEST_P(ExecutorContractTest, GroupsFollowEachOther) {
  for (int64_t segment = 1; segment <= 3; ++segment) {
    LaunchRequest launch = request("echo done", 1);  // an empty log would not come from other hosts
    launch.segment = segment;
    EXPECT_EQ(wait_for_all(*start(launch)).size(), 1u);
    EXPECT_TRUE(fs::exists(log_path(0, segment)));
  }
}

INSTANTIATE_TEST_SUITE_P(Executors, ExecutorContractTest, testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.row.name) + "_" + info.param.backend; });

// ---- an engine with a queue ----------------------------------------------------------------------------------------

class EngineTest : public testing::Test {
 protected:
  EngineTest() {
    request_.backend = "gloo";
    request_.guard = GUARD;
    request_.command = {"/bin/sh", "-c", "touch " + (dir_ / "started").string()};
    request_.log_dir = dir_.path();
  }
  std::unique_ptr<exec::Start> start(exec::EngineScript script) {
    executor_ = std::make_unique<exec::ScriptedExecutor>(exec::local::make(), std::move(script), log_);
    return executor_->start(request_);
  }

  TemporaryFolder dir_;
  LaunchRequest request_;
  std::shared_ptr<exec::EngineLog> log_ = std::make_shared<exec::EngineLog>();
  std::unique_ptr<exec::Executor> executor_;
};

TEST_F(EngineTest, TellsItsWordsWhileRanksWait) {
  const auto begun = start({.lines = {{exec::StartState::kQueued, "PENDING (Priority)", 2},
                                      {exec::StartState::kStarting, "CONFIGURING", 1}}});
  for (const char* words : {"PENDING (Priority)", "PENDING (Priority)", "CONFIGURING"}) {
    EXPECT_EQ(begun->poll(0ms).words, words);
  }
  EXPECT_EQ(begun->poll(kPatience).state, exec::StartState::kStarted);
  EXPECT_EQ(begun->take()->placement().size(), 1u);
}

TEST_F(EngineTest, AQueuedStartThatIsDroppedNeverStarts) {
  auto begun = start({.lines = {{exec::StartState::kQueued, "", 3}}});
  EXPECT_EQ(begun->poll(0ms).state, exec::StartState::kQueued);
  begun.reset();
  EXPECT_EQ(log_->withdrawn, 1);
  EXPECT_EQ(log_->launched, 0);
  EXPECT_FALSE(fs::exists(dir_ / "started"));
}

TEST_F(EngineTest, SaysWhyItRefuses) {
  const exec::EngineScript script = {
      .lines = {{exec::StartState::kQueued, "PENDING", 1}, {exec::StartState::kFailed, "PartitionTimeLimit", 1}}};
  const auto begun = start(script);
  EXPECT_EQ(begun->poll(0ms).state, exec::StartState::kQueued);
  for (int look = 0; look < 2; ++look) {
    const exec::StartStatus status = begun->poll(0ms);
    EXPECT_EQ(status.state, exec::StartState::kFailed);
    EXPECT_EQ(status.words, "PartitionTimeLimit");
  }
  EXPECT_THAT([&] { exec::start_and_wait(*executor_, request_, kPatience); },
              testing::ThrowsMessage<IoError>("PartitionTimeLimit"));
}

TEST_F(EngineTest, WhoDoesNotWaitForEverIsToldWhatTheEngineSaid) {
  start({.lines = {{exec::StartState::kQueued, "PENDING (Resources)", 1'000'000}}});
  EXPECT_THAT([&] { exec::start_and_wait(*executor_, request_, 100ms); },
              testing::ThrowsMessage<IoError>("executor scripted: the ranks do not run in time: PENDING (Resources)"));
  EXPECT_EQ(log_->launched, 0);
}

// Each executor says without a start that its engine is missing.
TEST(ExecutorContract, AnEngineThatIsMissingIsAnObstacle) {
  const TemporaryFolder nothing;
  const std::string path = environment_variable("PATH").value_or("");
  setenv("PATH", nothing.path().c_str(), 1);
  setenv("KUBECONFIG", (nothing / "no-such-config").c_str(), 1);
  LaunchRequest request;
  request.backend = "mpi";
  request.by_mpirun = true;
  request.workers = 2;
  const std::map<std::string, std::string> programs = {{"mpirun", "executor mpirun: there is no mpirun in PATH"},
                                                       {"slurm", "executor slurm: there is no sbatch in PATH"},
                                                       {"kubernetes", "executor kubernetes: "}};
  for (const ExecutorRow& row : executors()) {
    Json engine = Json::object();
    if (takes(row.name, "hosts")) engine["hosts"] = "h1:2";
    EXPECT_THAT(row.make(engine)->obstacle(request),
                HasSubstr(row.facts.on_this_host ? "back end mpi: there is no mpirun in PATH" : programs.at(row.name)))
        << row.name;
  }
  setenv("PATH", path.c_str(), 1);
  unsetenv("KUBECONFIG");
}

// Words that differ by rank are filled in, by the guards where one command starts all ranks.
TEST(ExecutorContract, RankWordsAreFilledIn) {
  for (const ExecutorRow& row : executors()) {
    LaunchRequest request;
    request.backend = "gloo";
    request.guard = GUARD;
    request.command = {"/bin/echo", "rank-{rank}-of-2"};
    request.rank_words = true;
    request.workers = 2;
    request.log_dir = "/runs/r-2/logs";
    Json engine = Json::object();
    if (std::string_view(row.name) == "mpirun") engine["hosts"] = "h1:2";
    if (facts_of(row.name).in_images) engine["image"] = "worker:1";
    const auto lines = row.make(engine)->describe(request);
    if (lines.size() == 1) {
      EXPECT_THAT(lines[0], HasSubstr("rank-{rank}-of-2")) << row.name;
      EXPECT_THAT(lines[0], HasSubstr("MLBENCH_GUARD_RANK_WORDS")) << row.name;
      continue;
    }
    ASSERT_EQ(lines.size(), 2u) << row.name;
    EXPECT_THAT(lines[0], HasSubstr("rank-0-of-2")) << row.name;
    EXPECT_THAT(lines[1], HasSubstr("rank-1-of-2")) << row.name;
  }
}

}  // namespace
}  // namespace mlbench::catalog
