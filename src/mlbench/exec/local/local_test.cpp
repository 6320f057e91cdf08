#include "mlbench/exec/local/local.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <set>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/gpus.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/exec/container.h"
#include "mlbench/exec/test_executor.h"
#include "mlbench/exec/test_fake_podman.h"

namespace mlbench::exec {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
constexpr auto kPatience = 30s;

// What is particular to ranks of this host; catalog/control/executor_contract_test.cpp tests the contract of all
// executors. The parameter is the back end: with mpi, mpirun starts the ranks.
class LocalExecutorTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (GetParam() == std::string("mpi") && !program_exists("mpirun")) GTEST_SKIP() << "missing capability: mpirun";
  }

  LaunchRequest request(const std::string& script, int workers) const {
    LaunchRequest result;
    result.by_mpirun = GetParam() == std::string_view("mpi");
    result.guard = GUARD;
    result.command = {"/bin/sh", "-c", script};
    result.workers = workers;
    result.log_dir = dir_.path();
    return result;
  }

  std::unique_ptr<RankGroup> start(const LaunchRequest& launch) const {
    return start_and_wait(*executor_, launch, kPatience);
  }

  std::string log(int rank) const { return log_of(rank, dir_.path()); }
  void wait_for_log(int rank, const std::string& text) const { exec::wait_for_log(rank, text, dir_.path()); }

  TemporaryFolder dir_;
  std::unique_ptr<Executor> executor_ = local::make();
};

TEST(LocalExecutor, DescribesExactCommands) {
  LaunchRequest request;
  request.guard = "/opt/ml bench/mlbench-guard";
  request.command = {"/opt/ml bench/mlbench-worker", "--run-dir", "/home/x/runs/r-2", "--segment", "1"};
  request.workers = 2;
  request.environment = {
      {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "4711"}, {"OMP_NUM_THREADS", "1"}, {"ODD", "it's"}};
  EXPECT_THAT(
      local::make()->describe(request),
      testing::ElementsAre(
          "LOCAL_RANK=0 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=4711 ODD='it'\\''s' OMP_NUM_THREADS=1 "
          "RANK=0 WORLD_SIZE=2 '/opt/ml bench/mlbench-guard' direct '/opt/ml bench/mlbench-worker' --run-dir "
          "/home/x/runs/r-2 --segment 1",
          "LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=4711 ODD='it'\\''s' OMP_NUM_THREADS=1 "
          "RANK=1 WORLD_SIZE=2 '/opt/ml bench/mlbench-guard' direct '/opt/ml bench/mlbench-worker' --run-dir "
          "/home/x/runs/r-2 --segment 1"));
}

TEST(LocalExecutor, DescribesTheOneMpirun) {
  LaunchRequest request;
  request.by_mpirun = true;
  request.command = {"/opt/mlbench-worker", "--run-dir", "/home/x/runs/r-1"};
  request.guard = "/opt/mlbench-guard";
  request.workers = 1;
  request.environment = {{"OMP_NUM_THREADS", "1"}};
  const std::string options =
      "--bind-to none%s --mca ras '^slurm,gridengine,tm,lsf,alps' --mca plm isolated --mca oob_tcp_if_include lo "
      "--mca pml ob1 --mca btl self,vader /opt/mlbench-guard openmpi /opt/mlbench-worker --run-dir /home/x/runs/r-1";
  const std::string environment = "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 ";
  const auto expected = [&](int workers, const std::string& more) {
    std::string line = environment + "mpirun -n " + std::to_string(workers) +
                       " --host localhost:" + std::to_string(workers) + " " + options;
    return line.replace(line.find("%s"), 2, more);
  };
  EXPECT_THAT(local::make()->describe(request), testing::ElementsAre(expected(1, "")));
  request.workers = available_cores() + 1;
  EXPECT_THAT(local::make()->describe(request), testing::ElementsAre(expected(request.workers, " --oversubscribe")));
}

TEST_P(LocalExecutorTest, RanksAreOnThisHostAndItsCores) {
  const auto group = start(request("exec sleep 600", 2));
  const std::vector<Placement> places = group->placement();
  ASSERT_EQ(places.size(), 2u);
  for (int rank = 0; rank < 2; ++rank) {
    const Placement& place = places[static_cast<size_t>(rank)];
    EXPECT_EQ(place.host, host_name());
    EXPECT_EQ(place.rank, rank);
    EXPECT_EQ(place.local_rank, rank);
    EXPECT_EQ(place.cores, allowed_cores());
    EXPECT_FALSE(place.gpu);
  }
  EXPECT_TRUE(group->captures().empty()) << "the supervisor is here itself";
}

// Sets CUDA_VISIBLE_DEVICES of this process while the object lives.
class VisibleGpus {
 public:
  explicit VisibleGpus(const char* names) { setenv(kVisibleGpus, names, 1); }
  ~VisibleGpus() { unsetenv(kVisibleGpus); }
  VisibleGpus(const VisibleGpus&) = delete;
  VisibleGpus& operator=(const VisibleGpus&) = delete;
};

TEST_P(LocalExecutorTest, EachRankOfACommandSeesAGpuOfItsOwn) {
  const VisibleGpus gpus("3,GPU-1b,5");
  LaunchRequest launch = request("echo $CUDA_VISIBLE_DEVICES$MLBENCH_GUARD_OWN_GPU", 2);
  launch.rank_words = launch.gpu = true;
  const auto group = start(launch);
  const std::vector<Placement> places = group->placement();
  EXPECT_EQ(places[0].gpu, 3);
  EXPECT_FALSE(places[1].gpu) << "it has a name, and no number";
  while (group->running()) group->poll(100ms);
  EXPECT_EQ(log(0), "3\n");
  EXPECT_EQ(log(1), "GPU-1b\n");
}

TEST_P(LocalExecutorTest, AWorkerSeesAllGpusAndPicksItsOwn) {
  const VisibleGpus gpus("3,5");
  LaunchRequest launch = request("echo $CUDA_VISIBLE_DEVICES", 2);
  launch.gpu = true;
  const auto group = start(launch);
  while (group->running()) group->poll(100ms);
  EXPECT_EQ(log(1), "3,5\n");
}

TEST_P(LocalExecutorTest, WhatTheUserSaysOfGpusGoesBefore) {
  const VisibleGpus gpus("3");
  LaunchRequest launch = request("echo $CUDA_VISIBLE_DEVICES", 2);
  launch.rank_words = launch.gpu = true;
  launch.environment = {{kVisibleGpus, "6,7"}};
  const auto group = start(launch);
  EXPECT_FALSE(group->placement()[0].gpu);
  while (group->running()) group->poll(100ms);
  EXPECT_EQ(log(1), "6,7\n");
}

TEST_P(LocalExecutorTest, MoreRanksThanGpusAreRefused) {
  const VisibleGpus gpus("3");
  LaunchRequest launch = request("true", 2);
  launch.rank_words = launch.gpu = true;
  const auto refusal = testing::ThrowsMessage<UserError>(testing::HasSubstr("start at most 1 here"));
  EXPECT_THAT([&] { executor_->start(launch); }, refusal);
  EXPECT_THAT([&] { executor_->describe(launch); }, refusal);
  EXPECT_EQ(offer_of(executor_->nodes()).gpus, 1);
  EXPECT_EQ(offer_of(executor_->nodes()).cores, available_cores());
}

TEST_P(LocalExecutorTest, WhatThisHostLacksIsAnObstacle) {
  LaunchRequest launch = request("true", 2);
  launch.network_interface = "lo";
  EXPECT_EQ(executor_->obstacle(launch), "");
  launch.network_interface = "127.0.0.1";
  EXPECT_EQ(executor_->obstacle(launch), "");
  launch.network_interface = "nosuch0";
  EXPECT_THAT(executor_->obstacle(launch),
              testing::AllOf(testing::HasSubstr("--interface 'nosuch0': ranks cannot listen there"),
                             testing::HasSubstr("interfaces of this host are lo")));
  launch.network_interface = "";
  launch.gpu = true;
  const VisibleGpus gpus("3");
  EXPECT_THAT(executor_->obstacle(launch), testing::HasSubstr("start at most 1 here")) << "a worker needs its own, too";
  launch.workers = 1;
  EXPECT_EQ(executor_->obstacle(launch), "");
  launch.workers = 2;
  launch.rank_words = true;
  launch.environment = {{kVisibleGpus, "6,7"}};
  EXPECT_EQ(executor_->obstacle(launch), "") << "the user says which";
}

TEST_P(LocalExecutorTest, ContainersHaveMoreTimeToStart) {
  LaunchRequest launch = request("true", 1);
  EXPECT_EQ(start_patience(launch), 60s);
  launch.in_image = true;
  EXPECT_EQ(start_patience(launch), 10min);
}

TEST_P(LocalExecutorTest, PidsAreThoseOfTheRanks) {
  const auto group = start(request("exec sleep 600", 3));
  kill(*group->pids()[1], SIGKILL);
  const auto exits = next_of<RankExit>(*group, kPatience);
  ASSERT_EQ(exits.size(), 1u);
  EXPECT_EQ(exits[0].rank, 1);
  EXPECT_TRUE(group->pids()[0]);
  EXPECT_FALSE(group->pids()[1]);
}

TEST_P(LocalExecutorTest, RanksInheritDescriptors) {
  // What ranks start inherits the descriptors, too; the lock is free once the last of these processes has ended.
  const fs::path lock = dir_ / "lock";
  auto held = FileLock::acquire(lock, 0ms);
  ASSERT_TRUE(held);
  LaunchRequest spec = request("trap '' TERM; sleep 600 & echo ready; wait", 2);
  spec.inherited = {held->fd()};
  auto group = start(spec);
  for (int rank = 0; rank < 2; ++rank) wait_for_log(rank, "ready");
  held.reset();
  EXPECT_FALSE(FileLock::acquire(lock, 0ms)) << "ranks keep the inherited descriptor";
  group.reset();
  EXPECT_TRUE(FileLock::acquire(lock, kPatience)) << "somebody outlived the group";
}

TEST_P(LocalExecutorTest, KilledGuardTakesItsRankWithIt) {
  const fs::path lock = dir_ / "lock";
  auto held = FileLock::acquire(lock, 0ms);
  // The rank's own child is a daemon, which nobody but a subreaper finds.
  LaunchRequest spec = request("setsid sleep 600 & echo $PPID; exec sleep 600", 2);
  spec.inherited = {held->fd()};
  const auto group = start(spec);
  held.reset();
  for (int rank = 0; rank < 2; ++rank) wait_for_log(rank, "\n");
  kill(std::stoi(log(1)), SIGKILL);
  const auto exits = next_of<RankExit>(*group, kPatience);
  ASSERT_EQ(exits.size(), 1u);
  EXPECT_EQ(exits[0].rank, 1);
  EXPECT_EQ(exits[0].end.code, 137);
  group->stop(1s);
  EXPECT_TRUE(FileLock::acquire(lock, kPatience)) << "somebody outlived the group";
}

// Files of shared memory, with the names that Open MPI gives those of ranks, and with a part of this test alone.
class LeftMemory {
 public:
  static std::string made_by_ranks(const fs::path& folder) {
    return fmt::format("echo x > /dev/shm/vader_segment.{}.{}.abc.$RANK; echo made; ", folder.filename().string(),
                       geteuid());
  }
  explicit LeftMemory(const fs::path& folder) : mark_("." + folder.filename().string() + ".") {}
  ~LeftMemory() {
    for (const fs::path& file : files()) fs::remove(file);
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator("/dev/shm")) {
      if (entry.path().filename().string().find(mark_) != std::string::npos) found.push_back(entry.path());
    }
    return found;
  }

 private:
  const std::string mark_;
};

TEST_P(LocalExecutorTest, AKilledGuardLeavesNoSharedMemory) {
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "missing capability: /dev/shm";
  const LeftMemory memory(dir_.path());
  auto group = start(request("echo $PPID; " + LeftMemory::made_by_ranks(dir_.path()) + "exec sleep 600", 2));
  for (int rank = 0; rank < 2; ++rank) wait_for_log(rank, "made\n");
  EXPECT_EQ(memory.files().size(), 2u);
  kill(std::stoi(log(1)), SIGKILL);
  EXPECT_FALSE(next_of<RankExit>(*group, kPatience).empty());
  group.reset();
  EXPECT_THAT(memory.files(), testing::IsEmpty());
}

// Somebody stops a guard. Its rank ends all the same, and the group finds out what the guard cannot tell.
TEST_P(LocalExecutorTest, AStoppedGuardTellsOfTheEndOfItsRank) {
  const auto group =
      start(request("echo $PPID; while [ ! -e " + (dir_ / "go").string() + " ]; do sleep 0.05; done; exit 7", 2));
  for (int rank = 0; rank < 2; ++rank) wait_for_log(rank, "\n");
  kill(std::stoi(log(1)), SIGSTOP);
  EXPECT_THAT(group->poll(300ms), testing::IsEmpty());
  write_file_atomically(dir_ / "go", "");
  std::set<int> ended;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (group->running() && std::chrono::steady_clock::now() < deadline) {
    for (const RankExit& exit : only<RankExit>(group->poll(100ms))) {
      EXPECT_EQ(exit.end.code, 7) << exit.rank;
      ended.insert(exit.rank);
    }
  }
  EXPECT_EQ(ended.size(), 2u);
}

class UnderMpirunTest : public LocalExecutorTest {};

// The guards end by themselves, and get the moment that this takes.
TEST_P(UnderMpirunTest, AKilledMpirunLeavesNoSharedMemory) {
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "missing capability: /dev/shm";
  const LeftMemory memory(dir_.path());
  auto group =
      start(request("grep PPid /proc/$PPID/status; " + LeftMemory::made_by_ranks(dir_.path()) + "exec sleep 600", 2));
  for (int rank = 0; rank < 2; ++rank) wait_for_log(rank, "made\n");
  EXPECT_EQ(memory.files().size(), 2u);
  kill(std::stoi(log(0).substr(log(0).find_first_of("0123456789"))), SIGKILL);
  EXPECT_FALSE(next_of<EngineWord>(*group, kPatience).empty());
  group.reset();
  EXPECT_THAT(memory.files(), testing::IsEmpty());
}

// The end of mpirun ends the guards: if it were not reported, a rank would be to blame.
TEST_P(UnderMpirunTest, AKilledMpirunIsTold) {
  const auto group = start(request("grep PPid /proc/$PPID/status; exec sleep 600", 2));
  for (int rank = 0; rank < 2; ++rank) wait_for_log(rank, "\n");
  EXPECT_THAT(group->poll(0ms), testing::IsEmpty());
  kill(std::stoi(log(0).substr(log(0).find_first_of("0123456789"))), SIGSEGV);
  const auto words = next_of<EngineWord>(*group, kPatience);
  ASSERT_EQ(words.size(), 1u) << "once";
  EXPECT_EQ(words[0].fact, EngineFact::kLauncherKilled);
  EXPECT_EQ(words[0].rank, -1);
  EXPECT_THAT(words[0].words, testing::HasSubstr("mpirun was killed by signal 11 (SIGSEGV)"));
  EXPECT_THAT(next_of<EngineWord>(*group, 200ms), testing::IsEmpty());
  group->stop(1s);
}

INSTANTIATE_TEST_SUITE_P(BackEnds, UnderMpirunTest, testing::Values("mpi"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(BackEnds, LocalExecutorTest, testing::Values("gloo", "mpi"),
                         [](const auto& info) { return std::string(info.param); });

class LocalImageTest : public LocalExecutorTest {
 protected:
  static std::unique_ptr<Executor> in(const std::string& image) { return local::make({{"image", image}}); }

  FakePodman podman_{FAKE_PODMAN};
};

TEST_P(LocalImageTest, DescribesExactCommandsWithoutValuesOfVariables) {
  LaunchRequest launch = request("true", 1);
  launch.guard = "/opt/mlbench-guard";
  launch.command = {"python3", "train.py", "{rank}"};
  launch.rank_words = true;
  launch.environment = {{"A", "b c"}};
  launch.folders = {{"/data", false}};
  const auto lines = in("i:1")->describe(launch);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], testing::HasSubstr("A='b c'"));
  const std::string words = lines[0].substr(lines[0].find("podman run"));
  const std::string here = dir_.path().parent_path();
  EXPECT_THAT(words, testing::StartsWith("podman run --rm --name " + container_name(launch, 0) + " --network host"));
  EXPECT_THAT(words, testing::HasSubstr(" --volume /opt/mlbench-guard:/opt/mlbench-guard:ro --volume " + here + ":" +
                                        here + " --volume /data:/data:ro --env A "));
  EXPECT_THAT(words, testing::HasSubstr(" --env LOCAL_RANK --env LOCAL_WORLD_SIZE "));
  EXPECT_THAT(words, testing::EndsWith(" --env RANK --env WORLD_SIZE --env MLBENCH_GUARD --entrypoint "
                                       "/opt/mlbench-guard i:1 direct python3 train.py 0"));
  EXPECT_EQ(words.find("b c"), std::string::npos) << "the value is in the environment alone";
}

TEST_P(LocalImageTest, AFractionOfACpuIsALimitOfEachContainer) {
  LaunchRequest launch = request("true", 2);
  launch.cpus = 0.25;  // less than any quota of this process
  for (const std::string& line : in("i:1")->describe(launch)) {
    EXPECT_THAT(line, testing::HasSubstr(" --cpus 0.25 "));
  }
}

TEST_P(LocalImageTest, RanksHaveTheVariablesGivenAndNoOthers) {
  setenv("NOT_FOR_RANKS", "x", 1);
  LaunchRequest launch = request("echo $A-$NOT_FOR_RANKS-$RANK", 2);
  launch.environment = {{"A", "b"}};
  const auto group = start_and_wait(*in("here"), launch, kPatience);
  unsetenv("NOT_FOR_RANKS");
  EXPECT_EQ(group->allocation(),
            Json({{"engine", "podman"},
                  {"job", container_name(launch, 0).substr(0, container_name(launch, 0).size() - 2)},
                  {"image", "here"},
                  {"image_ids", {"sha256:here"}}}));
  while (group->running()) group->poll(100ms);
  EXPECT_EQ(log(1), "b--1\n");
}

TEST_P(LocalImageTest, AContainerHasTheGpuOfItsRankAlone) {
  const VisibleGpus gpus("3,5");
  LaunchRequest launch = request("echo $CUDA_VISIBLE_DEVICES", 2);
  launch.rank_words = launch.gpu = true;
  const auto lines = in("here")->describe(launch);
  EXPECT_THAT(lines[1], testing::AllOf(testing::StartsWith("CUDA_VISIBLE_DEVICES=0 "),
                                       testing::HasSubstr(" --device nvidia.com/gpu=5 "),
                                       testing::HasSubstr(" --env CUDA_VISIBLE_DEVICES ")));
  EXPECT_THAT(lines[1], testing::Not(testing::HasSubstr("gpu=3")));
  const auto group = start_and_wait(*in("here"), launch, kPatience);
  EXPECT_EQ(group->placement()[1].gpu, 5);
  while (group->running()) group->poll(100ms);
  EXPECT_EQ(log(1), "0\n");
  launch.rank_words = false;
  EXPECT_THAT(in("here")->describe(launch)[1],
              testing::HasSubstr(" --device nvidia.com/gpu=3 --device nvidia.com/gpu=5 "))
      << "a worker picks its own";
  launch.rank_words = true;
  launch.environment = {{kVisibleGpus, "1"}};
  EXPECT_THAT(in("here")->describe(launch)[1], testing::AllOf(testing::StartsWith("CUDA_VISIBLE_DEVICES=1 "),
                                                              testing::HasSubstr(" --device nvidia.com/gpu=all ")));
  launch.environment.clear();
  launch.workers = 3;
  EXPECT_THAT([&] { in("here")->describe(launch); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("start at most 2 here")));
}

TEST_P(LocalImageTest, AnImageThatIsNotHereIsPulledFirst) {
  const auto executor = in("elsewhere");
  const auto start = executor->start(request("exec sleep 600", 1));
  const StartStatus first = start->poll(0ms);
  EXPECT_EQ(first.state, StartState::kQueued) << "it counts as no time of the run";
  EXPECT_EQ(first.words, "podman pulls the image elsewhere");
  ASSERT_EQ(wait_for(*start, StartState::kStarted).state, StartState::kStarted);
  EXPECT_EQ(start->take()->allocation()["image_ids"], Json({"sha256:elsewhere"}));
}

TEST_P(LocalImageTest, AnImageThatCannotBePulledIsAnErrorWithTheEnginesWords) {
  EXPECT_THAT([&] { start_and_wait(*in("missing"), request("true", 1), kPatience); },
              testing::ThrowsMessage<IoError>(testing::AllOf(testing::HasSubstr("podman pull missing ended with code"),
                                                             testing::HasSubstr("missing: image not known"))));
}

TEST_P(LocalImageTest, ContainersAreRemovedByNameBeforeAndAfter) {
  const LaunchRequest launch = request("exec sleep 600", 2);
  const std::string removal =
      "rm --force --ignore " + container_name(launch, 0) + " " + container_name(launch, 1) + "\n";
  auto group = start_and_wait(*in("here"), launch, kPatience);
  EXPECT_THAT(podman_.said(),
              testing::AllOf(testing::HasSubstr(removal + "run "), testing::Not(testing::EndsWith(removal))));
  group.reset();
  EXPECT_THAT(podman_.said(), testing::EndsWith(removal));
}

TEST_P(LocalImageTest, AKilledContainerIsALostRankAlone) {
  const auto group = start_and_wait(*in("here"), request("echo $PPID; exec sleep 600", 2), kPatience);
  for (int rank = 0; rank < 2; ++rank) wait_for_log(rank, "\n");
  kill(std::stoi(log(1)), SIGKILL);
  const auto exits = next_of<RankExit>(*group, kPatience);
  ASSERT_EQ(exits.size(), 1u);
  EXPECT_EQ(exits[0].rank, 1);
  EXPECT_EQ(exits[0].end.code, 137);
  EXPECT_THAT(group->poll(300ms), testing::IsEmpty());
}

class MpiImageTest : public LocalImageTest {
 protected:
  fs::path run() const { return dir_ / "run"; }
  LaunchRequest in_run(const std::string& script, int workers) const {
    LaunchRequest launch = request(script, workers);
    launch.log_dir = run() / "logs";
    fs::create_directories(launch.log_dir);
    return launch;
  }
  std::string log_in_run(int rank) const {
    return read_file(rank_log_path(run() / "logs", 1, rank, LogStream::kStdout));
  }
};

TEST_P(MpiImageTest, OneMpirunStartsAContainerPerRank) {
  LaunchRequest launch = in_run("true", 2);
  launch.guard = "/opt/mlbench-guard";
  launch.command = {"python3", "train.py", ":"};
  launch.environment = {{"A", "b c"}, {"PATH", "/x"}};
  const auto lines = in("i:1")->describe(launch);
  ASSERT_EQ(lines.size(), 1u);
  const std::string session = (run() / "openmpi").string();
  EXPECT_THAT(lines[0], testing::AllOf(testing::HasSubstr("A='b c' "), testing::HasSubstr(" mpirun --bind-to none"),
                                       testing::HasSubstr(" --mca orte_tmpdir_base " + session +
                                                          " --mca btl_vader_single_copy_mechanism none ")));
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(lines[0], testing::HasSubstr(" -n 1 --host localhost:2 podman run --rm --name " +
                                             container_name(launch, rank) + " --network host --ipc host "));
  }
  const std::string end =
      " --env A --env MLBENCH_GIVEN_PATH --env MLBENCH_GUARD --env 'OMPI_*' --env 'PMIX_*' --entrypoint "
      "/opt/mlbench-guard i:1 openmpi python3 train.py '\\:'";
  EXPECT_THAT(lines[0], testing::AllOf(testing::HasSubstr(end + " : -n 1 "), testing::EndsWith(end),
                                       testing::HasSubstr(" --pid host ")));
}

TEST_P(MpiImageTest, RanksHaveTheVariablesOfMpirun) {
  setenv("NOT_FOR_RANKS", "x", 1);
  const VisibleGpus gpus("3,5");
  LaunchRequest launch =
      in_run("echo $A-$NOT_FOR_RANKS-$RANK-$OMPI_COMM_WORLD_LOCAL_RANK-$CUDA_VISIBLE_DEVICES; ls -d " +
                 (run() / "openmpi").string() + "/*",
             2);
  launch.environment = {{"A", "b"}};
  launch.rank_words = launch.gpu = true;
  auto group = start_and_wait(*in("here"), launch, kPatience);
  unsetenv("NOT_FOR_RANKS");
  EXPECT_EQ(group->placement()[1].gpu, 5);
  EXPECT_EQ(group->allocation()["image_ids"], Json({"sha256:here"}));
  while (group->running()) {
    for (const RankExit& exit : only<RankExit>(group->poll(100ms))) EXPECT_EQ(exit.end.code, 0);
  }
  EXPECT_THAT(log_in_run(1), testing::StartsWith("b--1-1-0\n" + (run() / "openmpi").string() + "/"));
  EXPECT_THAT(podman_.said(), testing::HasSubstr(" --device nvidia.com/gpu=5 "));
  group.reset();
  EXPECT_FALSE(fs::exists(run() / "openmpi"));
  EXPECT_THAT(podman_.said(), testing::EndsWith("rm --force --ignore " + container_name(launch, 0) + " " +
                                                container_name(launch, 1) + "\n"));
}

TEST_P(MpiImageTest, AKilledContainerIsALostRank) {
  const auto group = start_and_wait(*in("here"), in_run("echo $PPID; exec sleep 600", 2), kPatience);
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  const fs::path log = rank_log_path(run() / "logs", 1, 1, LogStream::kStdout);
  while (!fs::exists(log) || read_file(log).empty()) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  kill(std::stoi(log_in_run(1)), SIGKILL);
  const auto exits = next_of<RankExit>(*group, kPatience);
  ASSERT_FALSE(exits.empty());
  EXPECT_EQ(exits[0].rank, 1);
  EXPECT_EQ(exits[0].end.code, 137);
}

INSTANTIATE_TEST_SUITE_P(BackEnds, MpiImageTest, testing::Values("mpi"),
                         [](const auto& info) { return std::string(info.param); });
INSTANTIATE_TEST_SUITE_P(BackEnds, LocalImageTest, testing::Values("gloo"),
                         [](const auto& info) { return std::string(info.param); });

TEST(LocalExecutor, ItsNodeIsThisHost) {
  const ClusterNodes all = local::make()->nodes();
  ASSERT_EQ(all.nodes.size(), 1U);
  EXPECT_EQ(all.nodes[0].name, host_name());
  EXPECT_EQ(all.nodes[0].cpus, available_cores());
  EXPECT_EQ(all.nodes[0].memory_bytes, host_memory_bytes());
  EXPECT_EQ(all.nodes[0].ready, true);
  EXPECT_EQ(all.problem, "");
}

// What mpirun says when it cannot start the ranks is in the error.
TEST(LocalExecutor, MpirunThatFailsIsQuoted) {
  if (!program_exists("mpirun")) GTEST_SKIP() << "missing capability: mpirun";
  const TemporaryFolder logs;
  LaunchRequest request;
  request.by_mpirun = true;
  request.guard = "/no/such/guard";
  request.command = {"/bin/true"};
  request.log_dir = logs.path();
  try {
    start_and_wait(*local::make(), request, kPatience);
    ADD_FAILURE() << "started a guard that does not exist";
  } catch (const IoError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("before the ranks ran"));
    EXPECT_THAT(error.what(), testing::HasSubstr("/no/such/guard"));
  }
}

}  // namespace
}  // namespace mlbench::exec
