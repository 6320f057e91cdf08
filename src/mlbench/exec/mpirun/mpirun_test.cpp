#include "mlbench/exec/mpirun/mpirun.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <optional>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/exec/linked.h"
#include "mlbench/exec/mpirun/command.h"
#include "mlbench/exec/mpirun/programs.h"
#include "mlbench/exec/mpirun/words.h"
#include "mlbench/exec/test_executor.h"
#include "mlbench/exec/test_fake_podman.h"
#include "mlbench/exec/test_links.h"
#include "mlbench/spec/hosts.h"

namespace mlbench::exec::mpirun {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;
constexpr auto kPatience = 30s;

LaunchRequest plan(int workers) {
  LaunchRequest request;
  request.backend = "gloo";
  request.guard = "/opt/mlbench-guard";
  request.command = {"/opt/mlbench-worker", "--run-dir", "/home/x/runs/r-2", "--segment", "1"};
  request.workers = workers;
  request.environment = {{"OMP_NUM_THREADS", "1"}, {"ODD", "it's"}};
  request.log_dir = "/home/x/runs/r-2/logs";
  request.run_name = "r-2";
  return request;
}

std::string folder_of(const Json& engine, LaunchRequest request) {
  request.links.folder = request.log_dir.parent_path();
  return folder_on_hosts(request, spec::engine_text(engine, "scratch")).string();
}

TEST(Mpirun, DescribesTheExactCommand) {
  Json engine = Json::object();
  engine["hosts"] = "h1:2,h2:2";
  engine["ssh_config"] = "/home/x/ssh_config";
  engine["scratch"] = "/scratch";
  LaunchRequest request = plan(3);
  request.network_interface = "eth0";
  const std::string folder = folder_of(engine, request);
  EXPECT_THAT(folder, testing::MatchesRegex("/scratch/mlbench-[0-9]+/r-2-[0-9a-f]+"));
  EXPECT_THAT(
      make(engine)->describe(request),
      ElementsAre(
          "ODD='it'\\''s' OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 "
          "mpirun -n 3 --host h1,h1,h2 --map-by seq --bind-to none --mca ras '^slurm,gridengine,tm,lsf,alps' "
          "--mca orte_keep_fqdn_hostnames 1 --mca plm rsh --mca plm_rsh_agent ssh "
          "--mca plm_rsh_args '-F /home/x/ssh_config -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 "
          "-o ServerAliveCountMax=2' --mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_keepalive_time 5 "
          "--mca oob_tcp_keepalive_intvl 2 --mca oob_tcp_keepalive_probes 3 --mca oob_tcp_if_include eth0 "
          "--mca orte_abort_on_non_zero_status 0 --mca odls_base_sigkill_timeout 2 --mca pml ob1 "
          "--mca btl self,vader,tcp --mca btl_tcp_if_include eth0 "
          "-x MASTER_ADDR -x MASTER_PORT -x MLBENCH_GUARD -x MLBENCH_GUARD_FOLDER -x MLBENCH_GUARD_SECRET "
          "-x MLBENCH_RESUME_S -x MLBENCH_RUN_ID -x MLBENCH_SECRET -x ODD -x OMP_NUM_THREADS "
          "/opt/mlbench-guard openmpi /opt/mlbench-worker --run-dir " +
          folder + " --segment 1"));
}

TEST(Mpirun, InAnImageItStartsContainersOnAllHosts) {
  const FakePodman podman(FAKE_PODMAN);
  Json engine = Json::object();
  engine["hosts"] = "h1:2,h2:2";
  engine["scratch"] = "/scratch";
  engine["image"] = "team/image:1";
  LaunchRequest request = plan(3);
  request.working_directory = "/home/x/work";
  request.folders = {{"/home/x/work", true}};
  const std::string line = make(engine)->describe(request).front();
  EXPECT_THAT(line, AllOf(HasSubstr(" -x OMP_NUM_THREADS podman run --rm --network host --ipc host --user "),
                          Not(HasSubstr("--wdir")), Not(HasSubstr("--name"))));
  EXPECT_THAT(line, HasSubstr(" --volume /opt/mlbench-guard:/opt/mlbench-guard:ro --volume /scratch:/scratch --volume "
                              "/home/x/work:/home/x/work --env MASTER_ADDR --env MASTER_PORT --env MLBENCH_GUARD "));
  EXPECT_THAT(line, HasSubstr(" --env OMPI_COMM_WORLD_RANK --env OMPI_COMM_WORLD_SIZE --env OMPI_COMM_WORLD_LOCAL_RANK "
                              "--env OMPI_COMM_WORLD_LOCAL_SIZE --workdir /home/x/work --entrypoint "
                              "/opt/mlbench-guard team/image:1 openmpi /opt/mlbench-worker --run-dir " +
                              folder_of(engine, request)));
  EXPECT_THAT(line, Not(HasSubstr("--cpus")));
  request.cpus = 2.5;
  EXPECT_THAT(make(engine)->describe(request).front(), HasSubstr(" --cpus 2.5 --volume "));
  request.by_mpirun = true;
  EXPECT_THAT([&] { make(engine)->describe(request); },
              ThrowsMessage<UserError>(HasSubstr("--image with --backend mpi: on other hosts")));
}

TEST(Mpirun, GuardsGiveRanksTheirGpus) {
  const FakePodman podman(FAKE_PODMAN);
  Json engine = Json::object();
  engine["hosts"] = "h1:2,h2:2";
  LaunchRequest request = plan(3);
  request.gpu = true;
  EXPECT_THAT(make(engine)->describe(request).front(), Not(HasSubstr("GPU"))) << "a worker picks its own";
  request.rank_words = true;
  EXPECT_THAT(make(engine)->describe(request).front(),
              AllOf(HasSubstr("MLBENCH_GUARD_OWN_GPU=1 "), HasSubstr(" -x MLBENCH_GUARD_OWN_GPU ")));
  engine["image"] = "team/image:1";
  EXPECT_THAT(make(engine)->describe(request).front(),
              AllOf(HasSubstr(" --device nvidia.com/gpu=all "), HasSubstr(" --env MLBENCH_GUARD_OWN_GPU ")));
  EXPECT_FALSE(offer_of(make(engine)->nodes()).gpus) << "which hosts there are, each run says";
}

TEST(Mpirun, TheNodesAreTheHostsThatWereNamed) {
  EXPECT_THAT(make({})->nodes().problem, HasSubstr("-H, --hostfile"));
  Json engine = Json::object();
  engine["hosts"] = "h1:2,h2,localhost:4";
  ClusterNodes named = make(engine)->nodes();
  ASSERT_EQ(named.nodes.size(), 3U);
  EXPECT_EQ(named.problem, "");
  EXPECT_EQ(named.nodes[0].name, "h1");
  EXPECT_EQ(named.nodes[0].slots, 2);
  EXPECT_FALSE(named.nodes[0].ready || named.nodes[0].cpus) << "nobody asked it";
  EXPECT_EQ(named.nodes[1].slots, 1);
  EXPECT_EQ(named.nodes[2].name, "localhost");
  EXPECT_EQ(named.nodes[2].slots, 4);
  EXPECT_EQ(named.nodes[2].cpus, available_cores());
  engine["ranks_per_host"] = 3;
  EXPECT_EQ(make(engine)->nodes().nodes[1].slots, 3);
}

TEST(Mpirun, OnThisHostAloneNoSshIsAsked) {
  Json engine = Json::object();
  engine["hosts"] = "localhost:4";
  LaunchRequest request = plan(2);
  request.environment["MLBENCH_OVERSUBSCRIBED"] = "1";
  request.working_directory = "/home/x/work";
  const auto lines = make(engine)->describe(request);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("mpirun -n 2 --host localhost,localhost --map-by seq --bind-to none "
                                  "--wdir /home/x/work --mca ras"));
  EXPECT_THAT(lines[0], AllOf(HasSubstr("--mca plm isolated --mca oob_tcp_if_include lo"), Not(HasSubstr("ssh")),
                              HasSubstr("--mca btl self,vader --mca mpi_yield_when_idle 1 ")));
  EXPECT_EQ(make(engine)->rendezvous({}).bind, "127.0.0.1");
}

TEST(Mpirun, ARankPerHostNeedsNoSharedMemory) {
  Json engine = Json::object();
  engine["hosts"] = "h1:8,h2:8";
  engine["ranks_per_host"] = 1;
  const auto lines = make(engine)->describe(plan(2));
  EXPECT_THAT(lines.front(), AllOf(HasSubstr("--host h1,h2 "), HasSubstr("--mca btl self,tcp "),
                                   Not(HasSubstr("if_include")), Not(HasSubstr("mpi_yield_when_idle"))));
}

TEST(Mpirun, HostsThatDoNotServeAreRefused) {
  const auto use = [](const std::string& hosts) {
    Json engine = Json::object();
    engine["hosts"] = hosts;
    return make(engine)->describe(plan(2));
  };
  EXPECT_THAT([&] { use(""); }, ThrowsMessage<UserError>(AllOf(HasSubstr("-H h1:2,h2:2"), HasSubstr("--hostfile"))));
  EXPECT_THAT([&] { use("h1"); }, ThrowsMessage<UserError>(HasSubstr("2 ranks need 2 slots")));
  EXPECT_THAT([&] { use("localhost,h2"); }, ThrowsMessage<UserError>(HasSubstr("localhost beside other hosts")));
  EXPECT_THAT([&] { use("[fd00::1],[fd00::2]"); }, ThrowsMessage<UserError>(HasSubstr("takes no number of IPv6")));
  EXPECT_EQ(own_address_on("lo"), "127.0.0.1");
  EXPECT_EQ(own_address_on("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(own_address_on("127.0.0.0/8"), "127.0.0.1");
  EXPECT_EQ(own_address_on("192.0.2.1"), std::nullopt);
  EXPECT_THAT([] { make({})->rendezvous({}); }, ThrowsMessage<UserError>(HasSubstr("-H h1:2,h2:2")));
}

TEST(Mpirun, PlacesAreThoseOfTheHosts) {
  const auto places = placement_on({"h2", "h1", "h2"});
  ASSERT_EQ(places.size(), 3u);
  EXPECT_EQ(places[2].host, "h2");
  EXPECT_EQ(places[2].rank, 2);
  EXPECT_EQ(places[2].local_rank, 1);
  EXPECT_EQ(places[1].local_rank, 0);
}

TEST(Mpirun, SshsWordsSurviveTheSplitting) {
  EXPECT_THAT([] { ssh_arguments("/home/x y/config"); },
              ThrowsMessage<UserError>(AllOf(HasSubstr("/home/x y/config"), HasSubstr("blanks"))));
  EXPECT_THROW(ssh_arguments("/home/$(id)/config"), UserError);
  EXPECT_THAT(ssh_arguments(""), testing::StartsWith("-o BatchMode=yes"));
}

TEST(Mpirun, NetworksAreAsOpenMpiSelectsThem) {
  EXPECT_EQ(network_of("eth0"), "eth0");
  EXPECT_EQ(network_of("10.77.0.0/24"), "10.77.0.0/24");
  EXPECT_EQ(network_of("127.0.0.1"), "127.0.0.0/8");
  EXPECT_THAT([] { network_of("192.0.2.1"); }, ThrowsMessage<UserError>(HasSubstr("this host has no such address")));
  EXPECT_THROW(network_of("eth0 --mca x"), UserError);
}

TEST(Mpirun, TheFolderOnHostsIsTheRunsOwn) {
  LaunchRequest one = plan(1), other = plan(1);
  other.log_dir = "/home/y/runs/r-2/logs";
  EXPECT_NE(folder_of({}, one), folder_of({}, other)) << "runs of two homes meet on one host";
  other.log_dir = one.log_dir;
  other.segment = 2;
  EXPECT_EQ(folder_of({}, one), folder_of({}, other)) << "the next segment finds its checkpoints";
  EXPECT_THAT(folder_of({}, one), testing::StartsWith("/tmp/mlbench-" + std::to_string(geteuid()) + "/r-2-"));
}

// ---- what Open MPI 4.1.4 and OpenSSH write --------------------------------------------------------------------------

const std::string kRule = std::string(74, '-') + "\n";

TEST(MpirunWords, NamesTheHostWithoutTheProgram) {
  const std::string said =
      "[h1:06346] plm:rsh: Warning: setpgid(6352,6352) failed in parent with errno=Permission "
      "denied(13)\n" +
      kRule +
      "mpirun was unable to launch the specified application as it could not access\nor execute an "
      "executable:\n\nExecutable: /opt/bin/mlbench-guard\nNode: h2\n\nwhile attempting to start "
      "process rank 1.\n" +
      kRule + "3 total processes failed to start\n";
  EXPECT_EQ(why_no_start(said, ""),
            "mlbench-guard is not at /opt/bin/mlbench-guard on h2: install the same build there, at the same path (a "
            "shared file system, or the same package)");
}

TEST(MpirunWords, NamesTheHostWithoutTheFolder) {
  const std::string said =
      kRule +
      "mpirun was unable to launch the specified application as it could not\nchange to the "
      "specified working directory:\n\nWorking directory: /no/dir\nNode: h1\n\nwhile attempting to "
      "start process rank 0.\n" +
      kRule;
  EXPECT_THAT(why_no_start(said, ""), HasSubstr("there is no folder /no/dir on h1"));
}

TEST(MpirunWords, SshComesFirst) {
  const std::string after = kRule +
                            "ORTE was unable to reliably start one or more daemons.\nThis usually is caused by:\n\n* "
                            "not finding the required libraries and/or binaries\n" +
                            kRule;
  EXPECT_EQ(
      why_no_start("ssh: Could not resolve hostname h9: Name or service not known\r\n" + after, "/x/config"),
      "ssh: Could not resolve hostname h9: Name or service not known (this must work from here for each host: ssh "
      "-F /x/config -o BatchMode=yes HOST true)");
  EXPECT_THAT(why_no_start("root@h2: Permission denied (publickey).\n" + after, ""),
              AllOf(HasSubstr("root@h2: Permission denied"), HasSubstr("ssh -o BatchMode=yes HOST true")));
  EXPECT_THAT(why_no_start("bash: line 1: orted: command not found\n" + after, ""),
              HasSubstr("no Open MPI in the PATH"));
  EXPECT_THAT(why_no_start(after, ""), AllOf(HasSubstr("ORTE was unable"), Not(HasSubstr("----"))));
}

TEST(MpirunWords, NamesTheHostWhoseDaemonIsLost) {
  const std::string said =
      kRule +
      "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[37861,0],0] on node "
      "h1\n  Remote daemon: [[37861,0],2] on node h3\n\nThis is usually due to either\n" +
      kRule;
  EXPECT_EQ(lost_host(said), "h3");
  EXPECT_FALSE(lost_host(said.substr(0, said.find(" on node h3") + 10))) << "half of it";
  EXPECT_FALSE(lost_host("all is well\n"));
  EXPECT_EQ(ranks_on("h3", {"h1", "h3", "h3"}), "ranks 1, 2");
  EXPECT_EQ(ranks_on("h1", {"h1", "h3", "h3"}), "rank 0");
}

// ---- with an mpirun of ours -----------------------------------------------------------------------------------------

// A shell's program that starts the guards on this host, in place of all hosts.
const std::string kStartGuards = R"(
n=$2
while [ "$2" != openmpi ]; do shift; done
rank=0
while [ $rank -lt $n ]; do
  OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=$n OMPI_COMM_WORLD_LOCAL_RANK=$rank OMPI_COMM_WORLD_LOCAL_SIZE=$n "$@" &
  rank=$((rank + 1))
done
)";

class FakeMpirunTest : public testing::Test {
 protected:
  FakeMpirunTest() {
    fs::create_directories(dir_ / "bin");
    fs::create_directories(run() / "logs");
    setenv("PATH", ((dir_ / "bin").string() + ":" + old_path_).c_str(), 1);
    program("ssh", "exit 255\n");
    engine_["hosts"] = "h1:1,h2:2";
    engine_["scratch"] = (dir_ / "scratch").string();
    executor_ = make(engine_);
  }
  ~FakeMpirunTest() override { setenv("PATH", old_path_.c_str(), 1); }

  void program(const std::string& name, const std::string& script) const {
    const fs::path file = dir_ / "bin" / name;
    std::ofstream(file) << "#!/bin/sh\n" << script;
    chmod(file.c_str(), 0755);
  }

  // Whatever the fake and its ranks start holds the lock.
  std::string holding() const { return "exec 9>>" + (dir_ / "held").string() + "; flock -s 9 || exit 1; "; }
  bool nobody_is_left() const { return FileLock::acquire(dir_ / "held", kPatience).has_value(); }
  fs::path run() const { return dir_ / "run"; }
  std::string log(int rank) const { return log_of(rank, run() / "logs"); }

  LaunchRequest command(const std::string& script) const {
    LaunchRequest request;
    request.guard = GUARD;
    request.command = {"/bin/sh", "-c", script, "{rank}"};
    request.rank_words = true;
    return request;
  }

  std::unique_ptr<Start> start(const std::string& script) { return start(command(script)); }

  std::unique_ptr<Start> start(LaunchRequest request) {
    request.backend = "gloo";
    request.workers = 3;
    request.log_dir = run() / "logs";
    request.run_name = "fake";
    request.environment = {{"MLBENCH_RUN_ID", "1"}, {"MLBENCH_RUN_DIR", run().string()}};
    request.links.folder = run();
    request.links.secret = "open-sesame";
    links_.emplace(request);
    return executor_->start(request);
  }

  TemporaryFolder dir_;
  const std::string old_path_ = getenv("PATH");
  Json engine_ = Json::object();
  std::optional<TestLinks> links_;
  std::unique_ptr<Executor> executor_;
};

TEST_F(FakeMpirunTest, WhatKeepsItFromStartingIsKnownBefore) {
  setenv("PATH", (dir_ / "bin").c_str(), 1);
  engine_["hosts"] = "no-such-host.invalid:3";
  executor_ = make(engine_);
  LaunchRequest request = plan(3);
  EXPECT_EQ(executor_->obstacle(request), "executor mpirun: there is no mpirun in PATH (Debian: openmpi-bin)");
  program("mpirun", "exit 1\n");
  EXPECT_THAT(executor_->obstacle(request), AllOf(HasSubstr("executor mpirun: "), HasSubstr("no-such-host.invalid")));
  request.network_interface = "nosuch0";
  EXPECT_THAT(executor_->obstacle(request), HasSubstr("--interface 'nosuch0': ranks cannot listen there"));
  request.network_interface = "lo";
  EXPECT_EQ(executor_->obstacle(request), "");
  engine_["hosts"] = "localhost:3";
  EXPECT_EQ(make(engine_)->obstacle(request), "");
}

TEST_F(FakeMpirunTest, EachRankOfACommandSeesAGpuOfItsHost) {
  // The shell of a host sets the variable.
  program("mpirun", "CUDA_VISIBLE_DEVICES=4,6,7; export CUDA_VISIBLE_DEVICES" + kStartGuards + "wait\n");
  LaunchRequest request = command("echo $CUDA_VISIBLE_DEVICES$MLBENCH_GUARD_OWN_GPU");
  request.gpu = true;
  const auto begun = start(request);
  wait_for(*begun, StartState::kStarted);
  auto group = begun->take();
  const auto places = group->placement();
  EXPECT_EQ(places[0].gpu, 4);
  EXPECT_EQ(places[2].gpu, 7);
  while (group->running()) group->poll(100ms);
  EXPECT_EQ(log(1), "6\n");
}

TEST_F(FakeMpirunTest, AHostWithTooFewGpusIsNamed) {
  program("mpirun", "CUDA_VISIBLE_DEVICES=4,6; export CUDA_VISIBLE_DEVICES" + kStartGuards + "wait\n");
  LaunchRequest request = command("true");
  request.gpu = true;
  const auto begun = start(request);
  EXPECT_THAT(wait_for(*begun, StartState::kFailed).words,
              AllOf(HasSubstr("rank 2 on h2: --gpu: each rank needs a GPU"), HasSubstr("start at most 2 here")));
}

TEST_F(FakeMpirunTest, RanksAreWhereTheirHostsAre) {
  program("mpirun", holding() + "echo \"$*\" > " + (dir_ / "words").string() + kStartGuards + "wait\n");
  write_file_atomically(run() / "spec.json", "{}");
  const auto begun = start("cat $MLBENCH_RUN_DIR/spec.json; echo $0 $RANK; exit $((RANK + 5))");
  wait_for(*begun, StartState::kStarted);
  auto group = begun->take();
  const auto places = group->placement();
  ASSERT_EQ(places.size(), 3u);
  EXPECT_EQ(places[0].host, "h1");
  EXPECT_EQ(places[1].host, "h2");
  EXPECT_EQ(places[2].host, "h2");
  EXPECT_EQ(places[2].local_rank, 1);
  int ends = 0;
  while (ends < 3) {
    const auto exits = exec::next_of<RankExit>(*group, kPatience);
    ASSERT_FALSE(exits.empty());
    for (const RankExit& exit : exits) {
      EXPECT_EQ(exit.end.code, exit.rank + 5);
      ++ends;
    }
  }
  while (group->running()) EXPECT_THAT(only<EngineWord>(group->poll(100ms)), testing::IsEmpty());
  EXPECT_EQ(log(2), "{}2 2\n");
  group.reset();
  EXPECT_TRUE(nobody_is_left());
  EXPECT_THAT(read_file(dir_ / "words"),
              AllOf(HasSubstr("--host h1,h2,h2 "), HasSubstr("-x MLBENCH_GUARD_SECRET"), Not(HasSubstr("sesame"))));
}

// Tests with hosts that have the files of this one. All but h1 lack the guard at the path that it has here.
class WithoutPrograms : public FakeMpirunTest {
 protected:
  WithoutPrograms() {
    program("ssh", "for word; do host=$line; line=$word; done; echo \"$host $line\" >> " + (dir_ / "calls").string() +
                       "\n[ $host = h1 ] || line=$(echo \"$line\" | sed 's#" GUARD
                       "#/absent#')\nexec sh -c \"$line\"\n");
    program("mpirun", "echo \"$*\" > " + (dir_ / "words").string() + kStartGuards + "wait\n");
  }
  fs::path folder() const { return folder_of_build({.guard = GUARD}, spec::engine_text(engine_, "scratch")); }
  int64_t copies() const {
    const std::string calls = read_file(dir_ / "calls");
    return static_cast<int64_t>(parts(calls, "tar -x"));
  }
  static size_t parts(const std::string& text, const std::string& part) {
    size_t count = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
    return count;
  }
  void run_to_its_end() {
    const auto begun = start("echo done");
    wait_for(*begun, StartState::kStarted);
    auto group = begun->take();
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (group->running() && std::chrono::steady_clock::now() < deadline) group->poll(100ms);
    EXPECT_EQ(log(2).substr(0, 5), "done\n");
  }
};

TEST_F(WithoutPrograms, ProgramsAreBroughtOnceToEachHost) {
  EXPECT_THAT(folder().string(), testing::MatchesRegex(".*/scratch/mlbench-[0-9]+/build-[0-9a-f]{12}"));
  run_to_its_end();
  EXPECT_EQ(copies(), 2) << read_file(dir_ / "calls");
  EXPECT_EQ(read_file(folder() / "mlbench-guard"), read_file(GUARD));
  EXPECT_TRUE(fs::exists(folder() / "complete"));
  EXPECT_THAT(read_file(dir_ / "words"), HasSubstr(" " + (folder() / "mlbench-guard").string() + " openmpi /bin/sh "));
  EXPECT_EQ(fs::status(folder().parent_path()).permissions() & (fs::perms::group_write | fs::perms::others_write),
            fs::perms::none);
  run_to_its_end();
  EXPECT_EQ(copies(), 2) << "they are there";
}

TEST_F(WithoutPrograms, WhereAllHaveThemNothingIsBrought) {
  engine_["hosts"] = "h1:3";
  executor_ = make(engine_);
  run_to_its_end();
  EXPECT_EQ(copies(), 0);
  EXPECT_THAT(read_file(dir_ / "words"), HasSubstr(" " GUARD " openmpi /bin/sh "));
  EXPECT_FALSE(fs::exists(folder()));
}

TEST_F(WithoutPrograms, AProgramThatDoesNotStartThereIsToldOf) {
  LaunchRequest request = command("");
  request.rank_words = false;
  request.command = {"/usr/bin/false"};  // --help ends with an error
  const auto begun = start(request);
  const StartStatus status = wait_for(*begun, StartState::kFailed);
  EXPECT_THAT(status.words, AllOf(HasSubstr("false cannot be brought to " + (dir_ / "scratch").string()),
                                  HasSubstr(" on h"), HasSubstr("the rest is the system's")));
  EXPECT_FALSE(fs::exists(dir_ / "words")) << "mpirun was started";
}

TEST_F(WithoutPrograms, WhatAWorkerLoadsByItselfIsBroughtWithIt) {
  const fs::path worker = dir_ / "programs/worker", modules = worker.parent_path() / "modules";
  fs::create_directories(modules);
  fs::copy_file("/usr/bin/true", worker);
  write_file_atomically(modules / "libx.so.2", "library");
  write_file_atomically(modules / "notes.txt", "text");
  LaunchRequest request = command("");
  request.rank_words = false;
  request.command = {worker.string()};
  request.modules = "modules";
  wait_for(*start(request), StartState::kStarted);
  const fs::path there = folder_of_build({GUARD, worker}, dir_ / "scratch");
  EXPECT_EQ(read_file(there / "worker"), read_file(worker));
  EXPECT_EQ(read_file(there / "modules/libx.so.2"), "library");
  EXPECT_FALSE(fs::exists(there / "modules/notes.txt"));
}

TEST_F(WithoutPrograms, ThePlanSaysWhatIsAskedAndBrought) {
  LaunchRequest request = command("true");
  request.workers = 3;
  request.log_dir = run() / "logs";
  const std::string plan = executor_->describe(request).front();
  EXPECT_THAT(plan, testing::StartsWith("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n 3 "));
  const std::string ssh =
      "\nssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o "
      "ServerAliveCountMax=2 h2 '/bin/sh -c ";
  EXPECT_EQ(parts(plan, ssh), 2U) << plan;
  EXPECT_EQ(parts(plan, "sha256sum"), 2U) << "of h1 and h2, each once";
  EXPECT_EQ(parts(plan, "tar -x"), 2U);
  EXPECT_THAT(plan, HasSubstr(folder().string()));
  EXPECT_FALSE(fs::exists(dir_ / "calls"));
}

TEST_F(FakeMpirunTest, WhatSshSaysIsTheReason) {
  program("mpirun", "echo 'ssh: Could not resolve hostname h2: Name or service not known'; exit 255\n");
  const auto begun = start("exit 0");
  const StartStatus status = wait_for(*begun, StartState::kFailed);
  EXPECT_THAT(status.words, AllOf(HasSubstr("mpirun ended with code 255 before the ranks ran"),
                                  HasSubstr("Could not resolve hostname h2")));
}

TEST_F(FakeMpirunTest, AStartThatIsDroppedEndsWhatIgnoresSigterm) {
  program("mpirun", holding() + "trap '' TERM; setsid sleep 600 & touch " + (dir_ / "began").string() +
                        "; while :; do sleep 0.05; done\n");
  auto begun = start("exit 0");
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!fs::exists(dir_ / "began") && std::chrono::steady_clock::now() < deadline) begun->poll(50ms);
  EXPECT_EQ(begun->poll(0ms).state, StartState::kStarting);
  begun.reset();
  EXPECT_TRUE(nobody_is_left());
}

TEST_F(FakeMpirunTest, AKilledMpirunIsTold) {
  program("mpirun", "echo $$ > " + (dir_ / "pid").string() + "\n" + kStartGuards + "wait\n");
  const auto begun = start(holding() + "exec sleep 600");
  wait_for(*begun, StartState::kStarted);
  auto group = begun->take();
  EXPECT_THAT(only<EngineWord>(group->poll(0ms)), testing::IsEmpty());
  kill(std::stoi(read_file(dir_ / "pid")), SIGKILL);
  const auto words = exec::next_of<EngineWord>(*group, kPatience);
  ASSERT_EQ(words.size(), 1u);
  EXPECT_EQ(words[0].fact, EngineFact::kJobOver);
  EXPECT_THAT(words[0].words, AllOf(HasSubstr("mpirun was killed by signal 9 (SIGKILL)"),
                                    HasSubstr("under its ranks, h1 (rank 0), h2 (ranks 1, 2)")));
  group.reset();
  EXPECT_TRUE(nobody_is_left());
}

TEST_F(FakeMpirunTest, AKilledMpirunLeavesNoSharedMemory) {
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "missing capability: /dev/shm";
  const std::string file = fmt::format("/dev/shm/vader_segment.{}.{}.abc.", dir_.path().filename().string(), geteuid());
  // Open MPI gives each of its children a group of its own.
  std::string guards = kStartGuards;
  guards.replace(guards.find("\"$@\" &"), 0, "setsid ");
  program("mpirun", "echo $$ > " + (dir_ / "pid").string() + "\n" + guards + "wait\n");
  const auto begun = start("echo x > " + file + "$RANK; echo > " + (dir_ / "made").string() + "$RANK; exec sleep 600");
  wait_for(*begun, StartState::kStarted);
  auto group = begun->take();
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (const char* rank : {"0", "1", "2"}) {
    while (!fs::exists((dir_ / "made").string() + rank)) ASSERT_LT(std::chrono::steady_clock::now(), deadline);
  }
  kill(std::stoi(read_file(dir_ / "pid")), SIGKILL);
  EXPECT_EQ(exec::next_of<EngineWord>(*group, kPatience).size(), 1u);
  group.reset();
  for (const char* rank : {"0", "1", "2"}) EXPECT_FALSE(fs::remove(file + rank)) << "rank " << rank;
}

TEST_F(FakeMpirunTest, ALostDaemonIsToldBeforeMpirunEnds) {
  program("mpirun", kStartGuards + "while [ ! -e " + (dir_ / "go").string() +
                        " ]; do sleep 0.05; done; echo 'ORTE has lost communication with a remote daemon.'; echo '  "
                        "Remote daemon: [[1,0],2] on node h2'; wait\n");
  const auto begun = start("exec sleep 600");
  wait_for(*begun, StartState::kStarted);
  const auto group = begun->take();
  EXPECT_THAT(only<EngineWord>(group->poll(0ms)), testing::IsEmpty());
  write_file_atomically(dir_ / "go", "");
  const auto words = exec::next_of<EngineWord>(*group, kPatience);
  ASSERT_EQ(words.size(), 1u);
  EXPECT_EQ(words[0].fact, EngineFact::kHostGone);
  EXPECT_TRUE(words[0].place_lost);
  EXPECT_EQ(words[0].words, "Open MPI's daemon on h2 (ranks 1, 2) is gone, and mpirun ends the ranks of all hosts");
}

}  // namespace
}  // namespace mlbench::exec::mpirun
