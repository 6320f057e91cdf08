#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "mlbench/base/energy_meter.h"
#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/process.h"
#include "mlbench/base/process_status.h"
#include "mlbench/guard/channel.h"
#include "mlbench/guard/descendants.h"
#include "mlbench/guard/openmpi.h"
#include "mlbench/guard/usage.h"
#include "mlbench/guard/words.h"
#include "mlbench/net/kv/kv.h"
#include "mlbench/net/link/link.h"

namespace mlbench::guard {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr auto kPatience = 30s;

// A supervisor with one rank, which is a script of the shell. All that descends from the rank holds `lock`.
class GuardTest : public testing::Test {
 protected:
  GuardTest() { become_subreaper(); }

  void start(const std::string& script, const std::filesystem::path& directory = {}) {
    Listener listener;
    ProcessOptions options;
    options.arguments = {GUARD, "direct", "/bin/sh", "-c", script};
    options.environment = {{variables::kGuard, listener.address()},
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
    channel_->send("start", as_one({folder_ / "log", folder_ / "errors"}), {{held->fd()}});
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

// Starts a daemon, which has a session of its own and is an orphan at once.
const std::string kDaemon = "setsid sh -c 'trap \"\" TERM HUP; echo daemon; sleep 600 & wait' & ";

TEST_F(GuardTest, PassesOnTheExitCodeOnceItWasHeard) {
  start("echo $RANK of $WORLD_SIZE \"$MLBENCH_GUARD\"; exit 7");
  EXPECT_EQ(next(), "end 7 0");
  EXPECT_FALSE(guard_->wait(100ms)) << "a launcher would act on it";
  channel_.reset();
  expect_nothing_left(7);
  EXPECT_EQ(read_file(folder_ / "log"), "0 of 1 \n");
}

TEST_F(GuardTest, TheStreamsOfTheRankAreToldApart) {
  start("echo said; echo wrong >&2; echo more");
  EXPECT_EQ(next(), "end 0 0");
  EXPECT_EQ(read_file(folder_ / "log"), "said\nmore\n");
  EXPECT_EQ(read_file(folder_ / "errors"), "wrong\n");
}

TEST_F(GuardTest, SaysWhichSignalEndedTheRank) {
  start("kill -SEGV $$");
  EXPECT_EQ(next(), "end 139 11");
}

TEST_F(GuardTest, SignalsReachTheRanksGroup) {
  start("trap 'echo heard; exit 3' USR1; echo ready; while :; do sleep 0.05; done");
  wait_for_log("ready");
  channel_->send("signal", SignalWord{SIGUSR1}.text());
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
  // Each process starts the next one in a session of its own, and ends.
  start("echo 'sleep 0.01; setsid sh ./on &' > on; sh ./on; sh ./on; sh ./on; sleep 0.2", folder_.path());
  EXPECT_EQ(next(), "end 0 0");
  channel_.reset();
  expect_nothing_left(0);
}

TEST_F(GuardTest, SharedMemoryOfAKilledRankIsRemoved) {
  namespace fs = std::filesystem;
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "missing capability: /dev/shm";
  struct stat space {};
  ASSERT_EQ(stat("/proc/self/ns/pid", &space), 0);
  const std::string mark = fs::path(folder_.path()).filename(), user = std::to_string(geteuid());
  const std::string open_mpi = "/dev/shm/vader_segment." + mark + "." + user + ".abc", ours = "/dev/shm/mlbench-shm.";
  const std::string older = open_mpi + "d.0", others = open_mpi + ".1", mapped = open_mpi + "e.0";
  const std::string space_text = std::to_string(space.st_ino);
  write_file_atomically(older, "x");
  // A clock that was set back gives what is new the time of what is old.
  start("for file in " + open_mpi + ".0 " + others + " " + mapped + " " + ours + space_text + ".$$.1." + mark + ".aa " +
            ours + space_text + ".1$$.1." + mark + ".bb; do echo x >$file; done; touch -d '1 hour ago' " + open_mpi +
            ".0; echo made; while [ ! -e go ]; do sleep 0.01; done; kill -9 $$",
        folder_.path());
  wait_for_log("made");
  const FileDescriptor open_file(open(mapped.c_str(), O_RDWR));
  void* memory = mmap(nullptr, 1, PROT_READ, MAP_SHARED, open_file.get(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  write_file_atomically(folder_ / "go", "");
  EXPECT_EQ(next(), "end 137 9");
  EXPECT_TRUE(fs::exists(open_mpi + ".0")) << "others may still use it";
  channel_.reset();
  expect_nothing_left(137);
  EXPECT_FALSE(fs::exists(open_mpi + ".0"));
  EXPECT_FALSE(fs::exists(ours + space_text + "." + std::to_string(rank_) + ".1." + mark + ".aa"));
  const std::string another = ours + space_text + ".1" + std::to_string(rank_) + ".1." + mark + ".bb";
  for (const std::string& kept : {older, others, mapped, another}) {
    EXPECT_TRUE(fs::remove(kept)) << kept << " is none of this rank's";
  }
  munmap(memory, 1);
}

TEST_F(GuardTest, TemporaryFoldersOfAKilledRankAreRemoved) {
  const std::filesystem::path temporary = std::filesystem::temp_directory_path();
  start("mkdir " + (temporary / ("mlbench-" + std::to_string(own_pid_namespace()) + ".$$-x")).string() +
        "; echo $$; kill -9 $$");
  EXPECT_EQ(next(), "end 137 9");
  channel_.reset();
  expect_nothing_left(137);
  const std::string pid = std::to_string(std::stoi(read_file(folder_ / "log")));
  EXPECT_FALSE(std::filesystem::exists(temporary / fmt::format("mlbench-{}.{}-x", own_pid_namespace(), pid)));
}

TEST_F(GuardTest, WithoutASupervisorItWaitsForOthersThatShareTheMemory) {
  namespace fs = std::filesystem;
  if (access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "missing capability: /dev/shm";
  const std::string shared =
      fmt::format("/dev/shm/vader_segment.{}.{}.abc.0", fs::path(folder_.path()).filename().string(), geteuid());
  start("echo x > " + shared + "; echo made; exec sleep 600");
  wait_for_log("made");
  const FileDescriptor open_file(open(shared.c_str(), O_RDONLY));
  ASSERT_TRUE(open_file);
  void* memory = mmap(nullptr, 1, PROT_READ, MAP_SHARED, open_file.get(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  channel_.reset();
  EXPECT_TRUE(wait_for_end(rank_, kPatience));
  std::this_thread::sleep_for(300ms);
  EXPECT_TRUE(fs::exists(shared)) << "another rank still maps it";
  munmap(memory, 1);
  expect_nothing_left(143);
  EXPECT_FALSE(fs::remove(shared));
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

// ---- on another host ----------------------------------------------------------------------------------------------

// A rank on another host, of which the supervisor has only what comes over the link. The supervisor's files lie below
// `folder_`/here, the rank's below `folder_`/there.
class LinkedGuardTest : public testing::Test {
 protected:
  LinkedGuardTest() {
    become_subreaper();
    std::filesystem::create_directory(folder_ / "here");
    const auto names = [](std::vector<std::string> given) { return [given](int) { return given; }; };
    links_.emplace(net::LinkServerOptions{.size = 1,
                                          .folder = folder_ / "here",
                                          .files = names({"spool/steps", "logs/log", "logs/errors"}),
                                          .folders = names({"checkpoints"})});
    net::KvServerOptions options;
    options.run_id = "1";
    options.secret = "sesame";
    options.take_link = [this](net::ProvedConnection link) { links_->take(std::move(link)); };
    rendezvous_.emplace(options);
    arrivals_.emplace(*links_, 1, "127.0.0.1:" + std::to_string(rendezvous_->port()));
  }

  void start(const std::string& script) {
    connect(script);
    begin();
  }

  void begin() {
    channel_->send("start", as_one({"logs/log", "logs/errors"}));
    EXPECT_THAT(next(), HasSubstr("pid "));
  }

  void connect(const std::string& script) {
    ProcessOptions options;
    options.arguments = {GUARD, launcher_, "/bin/sh", "-c", script, "{rank}-of-{rank}"};
    options.environment = variables_;
    options.environment.insert({{variables::kGuard, arrivals_->address()},
                                {variables::kGuardSecret, "sesame"},
                                {variables::kGuardFolder, folder_ / "there"},
                                {variables::kGuardRankWords, rank_words_ ? "1" : ""},
                                {"MLBENCH_RUN_ID", "1"}});
    options.output = folder_ / "guard.log";
    options.working_directory = folder_.path();
    guard_.emplace(ChildProcess::start(options));
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!(channel_ = arrivals_->accept())) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << read_file(folder_ / "guard.log");
      std::this_thread::sleep_for(10ms);
    }
    EXPECT_TRUE(channel_->elsewhere());
    EXPECT_FALSE(channel_->peer());
    EXPECT_EQ(next(), "rank 0");
    host_ = next();
    EXPECT_THAT(host_, testing::AllOf(HasSubstr("host {"), HasSubstr("\"kernel\""), HasSubstr("\"cores\"")));
    write_file_atomically(folder_ / "here/spec.json", "{\"given\": 1}");
    channel_->put("spec.json");
  }

  // The next message that is not about what the rank or its host uses; those come at any time, and are kept.
  std::string next() {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      Message message;
      const auto status = channel_->receive(message);
      if (status == Channel::Status::kMessage && message.word == "usage") {
        usage_ = message.text;
        continue;
      }
      if (status == Channel::Status::kMessage && message.word == EnergyWord::kWord) {
        energy_.push_back(EnergyWord::parse(message.text));
        continue;
      }
      if (status == Channel::Status::kMessage) return message.word + " " + message.text;
      if (status == Channel::Status::kClosed) return "closed";
      pollfd input{channel_->fd(), POLLIN, 0};
      poll(&input, 1, 1000);
    }
    return "nothing";
  }
  std::string here(const std::string& name) const {
    return std::filesystem::exists(folder_ / "here" / name) ? read_file(folder_ / "here" / name) : "";
  }

  // Waits for a file that has something in it.
  void wait_for_file(const std::string& name) const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!std::filesystem::exists(folder_ / name) || read_file(folder_ / name).empty()) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << name;
      std::this_thread::sleep_for(10ms);
    }
  }

  bool rank_words_ = false;
  TemporaryFolder folder_;
  std::string launcher_ = "direct";
  std::map<std::string, std::string> variables_ = {
      {"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}};
  std::string host_;   // what the guard said of its host
  std::string usage_;  // the last one
  std::vector<EnergyWord> energy_;
  std::optional<net::LinkServer> links_;
  std::optional<net::KvServer> rendezvous_;
  std::optional<LinkArrivals> arrivals_;
  std::optional<ChildProcess> guard_;
  std::unique_ptr<Channel> channel_;
};

// Such a folder is left, for example, by a run of a home that was made again: the same name with another identity.
TEST_F(LinkedGuardTest, FoldersOfOtherRunsOfItsNameAreNamedAndNotRead) {
  for (const char* other : {"run-2-bbbb", "run-2-more-cccc", "run-1-dddd"}) {
    std::filesystem::create_directories(folder_ / "scratch" / other / "spool");
    write_file_atomically(folder_ / "scratch" / other / "spool/steps", "old\n");
  }
  variables_[variables::kGuardFolder] = folder_ / "scratch/run-2-aaaa";
  start("exit 0");
  EXPECT_EQ(next(), "end 0 0");
  EXPECT_EQ(here("spool/steps"), "");
  const std::string said = read_file(folder_ / "guard.log");
  EXPECT_THAT(said, HasSubstr("scratch/run-2-bbbb is of another run of this name"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
}

TEST_F(LinkedGuardTest, AllThatARankWroteComesBehindItsEnd) {
  start(
      "cat there/spec.json; echo [$MLBENCH_GUARD$MLBENCH_GUARD_SECRET$MLBENCH_GUARD_FOLDER]; "
      "i=0; while [ $i -lt 1000 ]; do echo step $i >> there/spool/steps; i=$((i + 1)); done; echo bye >&2; kill -9 $$");
  EXPECT_EQ(next(), "end 137 9");
  EXPECT_EQ(next(), "drained ");
  EXPECT_EQ(here("logs/log"), "{\"given\": 1}[]\n");
  EXPECT_EQ(here("logs/errors"), "bye\n");
  EXPECT_EQ(here("spool/steps"), read_file(folder_ / "there/spool/steps"));
  EXPECT_THAT(here("spool/steps"), testing::EndsWith("step 999\n"));
  EXPECT_FALSE(guard_->wait(100ms)) << "a launcher would act on it";
  channel_.reset();
  const auto end = guard_->wait(kPatience);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, 137);
}

// The files are larger than what a link has under way at a time.
TEST_F(LinkedGuardTest, CheckpointsGoBothWays) {
  const std::string model(3'000'000, 'm');
  std::filesystem::create_directories(folder_ / "here/checkpoints/step-4");
  write_file_atomically(folder_ / "here/checkpoints/step-4/model", model);
  connect(
      "cd there/checkpoints; cp -r step-4 .tmp-8; echo more >> .tmp-8/model; : > .tmp-8/empty; mv .tmp-8 step-8; "
      "mkdir .tmp-12; echo half > .tmp-12/model");
  channel_->put("checkpoints/step-4/model");
  begin();
  EXPECT_EQ(next(), "end 0 0");
  EXPECT_EQ(next(), "drained ");
  EXPECT_TRUE(read_file(folder_ / "there/checkpoints/step-4/model") == model);
  EXPECT_TRUE(here("checkpoints/step-8/model") == model + "more\n");
  EXPECT_TRUE(std::filesystem::exists(folder_ / "here/checkpoints/step-8/empty"));
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "here/checkpoints")) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, testing::UnorderedElementsAre("step-4", "step-8"));
}

TEST_F(LinkedGuardTest, FillsInTheRankWhereItIsTold) {
  rank_words_ = true;
  start("echo $0 [$MLBENCH_GUARD_RANK_WORDS]");
  EXPECT_EQ(next(), "end 0 0");
  EXPECT_EQ(next(), "drained ");
  EXPECT_EQ(here("logs/log"), "0-of-0 []\n");
}

TEST_F(LinkedGuardTest, SaysWhatTheRankUses) {
  if (!usage_below(getpid())) GTEST_SKIP() << "missing capability: /proc/PID/task/TID/children";
  start("sh -c 'i=0; while [ ! -e go ]; do i=$((i + 1)); done'; exit 0");
  std::this_thread::sleep_for(2 * kUsageInterval + 500ms);
  write_file_atomically(folder_ / "go", "");
  EXPECT_EQ(next(), "end 0 0");
  const auto usage = Usage::parse(usage_);
  ASSERT_TRUE(usage) << usage_;
  EXPECT_GT(usage->processor, 200ms) << "what it started counts";
  EXPECT_LT(usage->processor, 60s);
  EXPECT_GT(usage->memory_bytes, 100 << 10);
  EXPECT_LT(usage->memory_bytes, 100 << 20);
  EXPECT_TRUE(usage->network);
}

TEST_F(LinkedGuardTest, SaysWhatItsHostUsesFromTheRanksBeginToItsEnd) {
  const EnergyMeter meter;
  start("exit 0");
  EXPECT_EQ(next(), "end 0 0");
  ASSERT_GE(energy_.size(), 2u);
  const EnergyWord &first = energy_.front(), &last = energy_.back();
  EXPECT_EQ(first.meter, meter.name()) << meter.problem();
  EXPECT_EQ(first.boot, boot_id().substr(0, first.boot.size()));
  EXPECT_EQ(first.boot.size(), boot_id().find(':')) << "pods of a host have networks of their own";
  EXPECT_EQ(last.boot, first.boot);
  EXPECT_GE(last.microjoules, first.microjoules);
}

TEST_F(LinkedGuardTest, OfAHostOnlyTheFirstRankSaysTheEnergy) {
  variables_["LOCAL_RANK"] = "1";
  variables_["LOCAL_WORLD_SIZE"] = "2";
  start("exit 0");
  EXPECT_EQ(next(), "end 0 0");
  EXPECT_THAT(energy_, testing::IsEmpty());
}

TEST_F(LinkedGuardTest, TheRankIsToldOfItsPeers) {
  connect("echo {hosts} \"$MASTER_ADDR\" \"$HOROVOD_RANK\"");
  EXPECT_THAT(host_, testing::AllOf(HasSubstr("\"address\":\"127.0.0.1\""), HasSubstr("\"local_size\":1"),
                                    HasSubstr("\"folder\":\""), testing::ContainsRegex("\"port\":[1-9][0-9]{3}")));
  channel_->send("peers", as_one({"h1,h2", "MASTER_ADDR", "fe80::1%eth0", "HOROVOD_RANK", "0"}));
  begin();
  EXPECT_EQ(next(), "end 0 0");
  EXPECT_EQ(next(), "drained ");
  EXPECT_EQ(here("logs/log"), "h1,h2 fe80::1%eth0 0\n");
}

// Words of other hosts that do harm, whatever let them through to the guard.
class HarmfulWords : public LinkedGuardTest, public testing::WithParamInterface<std::pair<std::string, std::string>> {};
TEST_P(HarmfulWords, AreRefusedByTheGuard) {
  connect("echo {hosts} > ran; echo \"$BASH_ENV$MASTER_ADDR\" > ran");
  channel_->send(GetParam().first, GetParam().second);
  EXPECT_THAT(next(), testing::StartsWith("error "));
  channel_.reset();
  ASSERT_TRUE(guard_->wait(kPatience));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "ran"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "evil"));
}
INSTANTIATE_TEST_SUITE_P(Guard, HarmfulWords,
                         testing::Values(std::pair("peers", as_one({"h1,$(touch evil)"})),
                                         std::pair("peers", as_one({"h1;touch evil"})),
                                         std::pair("peers", as_one({"h1", "BASH_ENV", "evil"})),
                                         std::pair("peers", as_one({"h1", "LD_PRELOAD", "evil.so"})),
                                         std::pair("peers", as_one({"h1", "MASTER_ADDR", "`touch evil`"})),
                                         std::pair("put", "../evil\n0 1\nx"), std::pair("put", "/tmp/evil\n0 1\nx"),
                                         std::pair("start", as_one({"../evil", "logs/errors"})),
                                         std::pair("start", as_one({"logs/log", "../evil"})),
                                         std::pair("start", "logs/log")));

TEST_F(LinkedGuardTest, WordsStayAsTheyAre) {
  start("echo $0");
  EXPECT_EQ(next(), "end 0 0");
  EXPECT_EQ(next(), "drained ");
  EXPECT_EQ(here("logs/log"), "{rank}-of-{rank}\n");
}

TEST_F(LinkedGuardTest, ItsFolderIsItsUsersAlone) {
  start("exit 0");
  struct stat info {};
  ASSERT_EQ(stat((folder_ / "there").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0700U);
  EXPECT_EQ(info.st_uid, geteuid());
}

// Somebody else was first in the folder's place: with a link, or with a folder that others can write to.
TEST_F(LinkedGuardTest, AFolderOfOthersIsRefused) {
  namespace fs = std::filesystem;
  const auto refused = [&](const fs::path& folder) {
    ProcessOptions options;
    options.arguments = {GUARD, "direct", "/bin/true"};
    options.environment = {{variables::kGuard, arrivals_->address()},
                           {variables::kGuardSecret, "sesame"},
                           {variables::kGuardFolder, folder},
                           {"MLBENCH_RUN_ID", "1"},
                           {"RANK", "0"},
                           {"WORLD_SIZE", "1"},
                           {"LOCAL_RANK", "0"},
                           {"LOCAL_WORLD_SIZE", "1"}};
    const ProcessOutput output = run_process(options, kPatience);
    EXPECT_NE(output.end.code, 0);
    return output.standard_error;
  };
  fs::create_directories(folder_ / "open");
  fs::permissions(folder_ / "open", fs::perms::all);
  EXPECT_THAT(refused(folder_ / "open"), HasSubstr("open is another user's, or others can write there"));
  EXPECT_THAT(refused(folder_ / "open/run"), HasSubstr("open is another user's, or others can write there"));
  EXPECT_FALSE(fs::exists(folder_ / "open/run"));
  fs::create_directory_symlink("/", folder_ / "link");
  EXPECT_THAT(refused(folder_ / "link"), HasSubstr("link is another user's"));
  EXPECT_FALSE(links_->came(0));
}

TEST_F(LinkedGuardTest, SignalsReachTheRank) {
  start("trap 'exit 3' USR1; echo ready; while :; do sleep 0.05; done");
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (here("logs/log") != "ready\n") {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(10ms);
  }
  channel_->send("signal", SignalWord{SIGUSR1}.text());
  EXPECT_EQ(next(), "end 3 0");
}

TEST_F(LinkedGuardTest, UnderSlurmTheNodeIsWhatSlurmCallsIt) {
  launcher_ = "slurm";
  variables_ = {{"SLURM_PROCID", "0"},     {"SLURM_STEP_NUM_TASKS", "1"},      {"SLURM_NTASKS", "1"},
                {"SLURM_LOCALID", "0"},    {"SLURM_STEP_TASKS_PER_NODE", "1"}, {"SLURM_NODEID", "0"},
                {"SLURMD_NODENAME", "n7"}, {"SLURM_STEP_NODELIST", "n[7"},     {variables::kGuardRankWords, "1"}};
  start("echo $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE {rank}-{rank}[$MLBENCH_GUARD_RANK_WORDS]");
  EXPECT_THAT(host_, testing::AllOf(HasSubstr("\"node\":\"n7\""), HasSubstr("\"local_rank\":0")));
  EXPECT_EQ(next(), "end 0 0");
  EXPECT_EQ(next(), "drained ");
  EXPECT_EQ(here("logs/log"), "0/1 0/1 0-0[]\n");
}

// ---- Open MPI beside a rank ----------------------------------------------------------------------------------------

TEST_F(LinkedGuardTest, OpenMpiAsksForItsDaemonsAndItsRank) {
  connect("echo $OMPI_A/$PMIX_RANK/$OTHER/$RANK/$MLBENCH_GUARD_BESIDE; exit 4");
  channel_->send("launch",
                 as_one({"mpirun", "/bin/sh", "-c", "\"$0\" agent rank-3 ' orted' -mca x '\"1 2\"' ')'", kGuardWord}));
  EXPECT_EQ(next(), "agent " + as_one({"rank-3", " orted -mca x \"1 2\" )"}));
  channel_->send("launch",
                 as_one({"daemon", "/bin/sh", "-c",
                         "OMPI_A='1 2' PMIX_RANK=0 OTHER=3 RANK=7 \"$0\" stub; echo $? > stub-ended", kGuardWord}));
  EXPECT_EQ(next(), "asked ");
  begin();
  EXPECT_EQ(next(), "end 4 0");
  EXPECT_EQ(next(), "drained ");
  EXPECT_EQ(here("logs/log"), "1 2/0//0/\n");
  std::this_thread::sleep_for(100ms);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "stub-ended")) << "mpirun would act on it";
  channel_.reset();
  const auto end = guard_->wait(kPatience);
  ASSERT_TRUE(end);
  EXPECT_EQ(end->code, 4);
  wait_for_file("stub-ended");
  EXPECT_EQ(read_file(folder_ / "stub-ended"), "0\n");
}

TEST_F(LinkedGuardTest, WhatALaunchedProgramLeavesEndsWithTheGuard) {
  connect("exit 0");
  channel_->send("launch",
                 as_one({"mpirun", "/bin/sh", "-c", "trap '' TERM; setsid sleep 600 & echo $! > daemon; wait"}));
  wait_for_file("daemon");
  begin();
  EXPECT_EQ(next(), "end 0 0");
  EXPECT_EQ(next(), "drained ");
  const pid_t daemon = std::stoi(read_file(folder_ / "daemon"));
  EXPECT_EQ(kill(daemon, 0), 0) << "it is none of the rank's";
  channel_.reset();
  ASSERT_TRUE(guard_->wait(kPatience));
  EXPECT_TRUE(wait_for_end(daemon, kPatience));
}

TEST_F(LinkedGuardTest, TheEndOfALaunchedProgramIsTold) {
  connect("while :; do sleep 0.05; done");
  channel_->send("launch", as_one({"mpirun", "/bin/sh", "-c", "echo no route; exit 3"}));
  EXPECT_EQ(next(), "launched-end " + as_one({"0", "mpirun ended with code 3: no route"}));
  channel_->send("launch", as_one({"daemon", "/bin/sh", "-c",
                                   "while [ ! -e go ]; do sleep 0.05; done; sh -c 'kill -9 $$'; exit $?"}));
  begin();
  write_file_atomically(folder_ / "go", "");
  EXPECT_THAT(next(),
              testing::AllOf(HasSubstr("launched-end 9"), HasSubstr("daemon was killed by signal 9 (SIGKILL)")));
  channel_->send("signal", std::to_string(SIGKILL));
  EXPECT_EQ(next(), "end 137 9");
}

TEST_F(LinkedGuardTest, AProgramOfOpenMpiThatIsMissingIsNamed) {
  connect("true");
  channel_->send("launch", as_one({"mpirun", "no-such-mpirun"}));
  EXPECT_THAT(next(), testing::AllOf(HasSubstr("error "), HasSubstr("no-such-mpirun")));
  channel_.reset();
  EXPECT_TRUE(guard_->wait(kPatience));
}

// Whoever calls an agent or a stub must have a guard beside it.
TEST_F(LinkedGuardTest, AnAgentWithoutAGuardSaysWhatItLacks) {
  const auto complaint = [&](std::vector<std::string> arguments, const std::string& address) {
    ProcessOptions options;
    arguments.insert(arguments.begin(), GUARD);
    options.arguments = std::move(arguments);
    if (!address.empty()) options.environment = {{"MLBENCH_GUARD_BESIDE", address}};
    const ProcessOutput output = run_process(options, kPatience);
    EXPECT_NE(output.end.code, 0);
    return output.standard_error;
  };
  EXPECT_THAT(complaint({"agent", "rank-1", "orted"}, ""), HasSubstr("MLBENCH_GUARD_BESIDE is not set"));
  EXPECT_THAT(complaint({"stub"}, "unix:nobody-listens-there"), HasSubstr("is gone"));
}

TEST_F(LinkedGuardTest, AllEndsWithTheSupervisor) {
  start("trap '' TERM; setsid sleep 600 & echo $! > daemon; echo ready; while :; do sleep 0.05; done");
  rendezvous_.reset();
  arrivals_.reset();
  channel_.reset();
  links_.reset();
  const auto end = guard_->wait(kPatience);
  ASSERT_TRUE(end) << "the guard never ended";
  EXPECT_EQ(end->code, 137);
  if (std::filesystem::exists(folder_ / "daemon")) {
    EXPECT_TRUE(wait_for_end(std::stoi(read_file(folder_ / "daemon")), kPatience));
  }
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
  EXPECT_THAT(complaint({"slrum", "true"}), HasSubstr("valid: direct, openmpi, slurm"));
  EXPECT_THAT(complaint({"openmpi", "true"}), HasSubstr("OMPI_COMM_WORLD_RANK is not set"));
  EXPECT_THAT(complaint({"slurm", "true"}), HasSubstr("SLURM_PROCID is not set"));
  EXPECT_THROW(connect_to("tcp:host:1", {}), UserError);
  EXPECT_THROW(connect_to("link:host", {}), UserError);
  EXPECT_THROW(connect_to("unix:nobody-listens-there", {}), IoError);
}

}  // namespace
}  // namespace mlbench::guard
