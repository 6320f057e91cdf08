#include "mlbench/supervise/lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <thread>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/process_status.h"
#include "mlbench/base/run_folder.h"
#include "mlbench/supervise/control.h"
#include "mlbench/supervise/core_lock.h"
#include "mlbench/supervise/supervisor.h"

namespace mlbench::supervise {
namespace {

using namespace std::chrono_literals;

TEST(Lease, HasOneHolder) {
  const TemporaryFolder folder;
  EXPECT_FALSE(lease_held(folder.path(), 1s)) << "nobody took it yet";
  auto lease = Lease::take(folder.path());
  ASSERT_TRUE(lease);
  EXPECT_TRUE(lease_held(folder.path(), 1s));
  EXPECT_FALSE(Lease::take(folder.path()));
  lease.reset();
  EXPECT_FALSE(lease_held(folder.path(), 1s));
  EXPECT_TRUE(Lease::take(folder.path()));
}

// Settling a run ends the processes that its lease names: no content of the file may name all processes of a user.
TEST(Lease, NamesNobodyByANumberThatIsNoProcess) {
  const TemporaryFolder folder;
  auto lease = Lease::take(folder.path());
  lease->refresh({{1234, 99}});
  const std::string good = read_file(folder.path() / "lease");
  ASSERT_TRUE(read_lease(folder.path()));
  for (const char* pid : {"0", "1", "-1", "-1234", "1e308", "4294968530", "\"1234\""}) {
    std::string text = good;
    text.replace(text.rfind("1234"), 4, pid);
    write_file_atomically(folder.path() / "lease", text);
    EXPECT_FALSE(read_lease(folder.path())) << pid;
  }
}

TEST(Lease, SaysWhoHoldsIt) {
  const TemporaryFolder folder;
  EXPECT_FALSE(read_lease(folder.path()));
  auto lease = Lease::take(folder.path());
  EXPECT_FALSE(read_lease(folder.path())) << "nothing written yet";
  lease->refresh({{1234, 99}, {1235, 100}});
  lease->refresh({{1234, 99}});
  const auto content = read_lease(folder.path());
  ASSERT_TRUE(content);
  EXPECT_EQ(content->host, host_name());
  EXPECT_EQ(content->boot_id, boot_id());
  EXPECT_EQ(content->holder.pid, getpid());
  EXPECT_EQ(content->holder.start_time, process_status(getpid())->start_time);
  EXPECT_EQ(content->counter, 2);
  EXPECT_THAT(content->ranks, testing::ElementsAre(ProcessIdentity{1234, 99}));

  lease.reset();
  lease = Lease::take(folder.path());
  lease->refresh({});
  EXPECT_EQ(read_lease(folder.path())->counter, 3) << "the next holder counts on";
}

TEST(Lease, EndsWithItsProcess) {
  const TemporaryFolder folder;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lease = Lease::take(folder.path());
    [[maybe_unused]] const ssize_t said = write(ready[1], "x", 1);
    pause();
    _exit(lease ? 0 : 1);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_TRUE(lease_held(folder.path(), 1s));
  EXPECT_FALSE(Lease::take(folder.path()));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(lease_held(folder.path(), 1s));
  close(ready[0]);
  close(ready[1]);
}

// On a file system whose locks are not seen here, only the counter tells.
TEST(Lease, OnAnotherHostTheCounterTells) {
  const TemporaryFolder folder;
  Json content = {{"host", "elsewhere"}, {"boot_id", "another"}, {"pid", 1},
                  {"start_time", 1},     {"counter", 5},         {"ranks", Json::array()}};
  write_json_file(folder.path() / "lease", content);
  EXPECT_FALSE(lease_held(folder.path(), 600ms)) << "the counter stands still";

  std::jthread holder([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      content["counter"] = content["counter"].get<int>() + 1;
      write_json_file(folder.path() / "lease", content);
      std::this_thread::sleep_for(50ms);
    }
  });
  EXPECT_TRUE(lease_held(folder.path(), 30s));
}

TEST(CoreLock, IsForAllUsersWhateverTheUmask) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "cores.lock";
  const mode_t mask = umask(0077);
  const auto lock = take_core_lock(path, 0ms);
  umask(mask);
  ASSERT_TRUE(lock);
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0666u);
  EXPECT_FALSE(take_core_lock(path, 0ms));
}

TEST(CoreLock, FollowsNoSymbolicLinkAndTakesNoOtherThing) {
  const TemporaryFolder folder;
  const auto target = folder.path() / "precious";
  write_file_atomically(target, "text");
  std::filesystem::create_symlink(target, folder.path() / "link");
  EXPECT_THROW(take_core_lock(folder.path() / "link", 0ms), IoError);
  std::filesystem::create_symlink(folder.path() / "nowhere", folder.path() / "dangling");
  EXPECT_THROW(take_core_lock(folder.path() / "dangling", 0ms), IoError);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "nowhere"));
  ASSERT_EQ(mkfifo((folder.path() / "fifo").c_str(), 0666), 0);
  EXPECT_THROW(take_core_lock(folder.path() / "fifo", 0ms), IoError);
  EXPECT_THROW(take_core_lock(folder.path(), 0ms), IoError);
  EXPECT_EQ(read_file(target), "text");
}

TEST(CoreLock, NamesItsHolder) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "cores.lock";
  EXPECT_EQ(describe_holder(path), "");
  const auto lock = take_core_lock(path, 0ms);
  std::ifstream locks("/proc/locks");
  const std::string all((std::istreambuf_iterator<char>(locks)), std::istreambuf_iterator<char>());
  if (all.find("FLOCK") == std::string::npos) GTEST_SKIP() << "missing capability: /proc/locks";
  EXPECT_THAT(describe_holder(path), testing::HasSubstr("process " + std::to_string(getpid()) + " of user "));
}

// A stop request between the taking of the lease and the removal of an old stop file is not lost.
TEST(Lease, IsAskedToStopOnlyOnceItSaysItsName) {
  const TemporaryFolder folder;
  {
    auto earlier = Lease::take(folder.path());
    earlier->refresh({});
  }
  auto lease = Lease::take(folder.path());
  std::jthread asker([&] { request_stop(folder.path()); });
  std::this_thread::sleep_for(300ms);
  EXPECT_FALSE(std::filesystem::exists(stop_path(folder.path()))) << "it would be taken for an old one";
  Control control(folder.path(), false);
  lease->refresh({});
  asker.join();
  EXPECT_EQ(control.poll(), EndRequest::kStop);
}

// A second signal asks for more than the first.
TEST(Lease, ASecondSignalStopsAtOnce) {
  const TemporaryFolder folder;
  Control control(folder.path(), false);
  EXPECT_FALSE(control.poll());
  raise(SIGINT);
  EXPECT_EQ(control.poll(), EndRequest::kStop);
  EXPECT_EQ(control.poll(), EndRequest::kStop);
  raise(SIGTERM);
  EXPECT_EQ(control.poll(), EndRequest::kStopNow);
}

class CoreQueueTest : public testing::Test {
 protected:
  static std::optional<HeldCores> take(CoreQueue& queue) { return queue.take(0ms); }
  std::filesystem::path lock() const { return folder_.path() / "cores.lock"; }
  std::optional<HeldCores> take(int64_t cores) const {
    CoreQueue queue(lock(), cores);
    return queue.take(0ms);
  }

  TemporaryFolder folder_;
  const std::vector<int> all_ = allowed_cores();
};

TEST_F(CoreQueueTest, OneRunHasTheHostAlone) {
  auto held = take(0);
  ASSERT_TRUE(held);
  EXPECT_TRUE(held->cores().empty());
  EXPECT_FALSE(take(0));
  EXPECT_FALSE(take(1));
  EXPECT_FALSE(take_core_lock(lock(), 0ms)) << "the same lock";
  held.reset();
  EXPECT_TRUE(take(0));
}

TEST_F(CoreQueueTest, ThoseThatShareHaveCoresOfTheirOwn) {
  if (all_.size() < 2) GTEST_SKIP() << "missing capability: two cores";
  auto first = take(1), second = take(1);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->cores(), std::vector<int>{all_[0]});
  EXPECT_EQ(second->cores(), std::vector<int>{all_[1]});
  EXPECT_FALSE(take(static_cast<int64_t>(all_.size()) - 1)) << "a part is no use";
  EXPECT_FALSE(take(0));
  first.reset();
  const auto third = take(1);
  ASSERT_TRUE(third);
  EXPECT_EQ(third->cores(), std::vector<int>{all_[0]});
  EXPECT_THAT([&] { take(static_cast<int64_t>(all_.size()) + 1); },
              testing::ThrowsMessage<UserError>(testing::HasSubstr("--share-host: the run needs")));
}

TEST_F(CoreQueueTest, WhoIsTheNextIsNotOvertaken) {
  auto sharing = take(1);
  ASSERT_TRUE(sharing);
  std::optional<CoreQueue> alone(std::in_place, lock(), 0);
  EXPECT_FALSE(take(*alone));
  EXPECT_FALSE(take(1)) << "or such as it would have cores for ever";
  sharing.reset();
  EXPECT_FALSE(take(1));
  EXPECT_TRUE(take(*alone));
  alone.reset();
  EXPECT_TRUE(take(0)) << "it gave up its turn with its cores";
}

TEST_F(CoreQueueTest, WhoGivesUpHoldsNobodyBack) {
  auto sharing = take(1);
  {
    CoreQueue alone(lock(), 0);
    EXPECT_FALSE(take(alone));
  }
  sharing.reset();
  EXPECT_TRUE(take(1));
}

TEST_F(CoreQueueTest, CopiesOfTheDescriptorsKeepTheCores) {
  auto held = take(1);
  ASSERT_TRUE(held);
  std::vector<FileDescriptor> inherited;
  for (const int fd : held->descriptors()) inherited.emplace_back(dup(fd));
  EXPECT_EQ(inherited.size(), 2u);
  held.reset();
  EXPECT_FALSE(take(0)) << "ranks go on";
  EXPECT_FALSE(take(static_cast<int64_t>(all_.size())));
  inherited.clear();
  EXPECT_TRUE(take(static_cast<int64_t>(all_.size())));
}

TEST(CoreLock, ShowsWhoRunsBeside) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "cores.lock";
  EXPECT_FALSE(somebody_beside(path));
  FileDescriptor first = show_beside(path), second = show_beside(path);
  EXPECT_TRUE(somebody_beside(path));
  first.reset();
  EXPECT_TRUE(somebody_beside(path));
  second.reset();
  EXPECT_FALSE(somebody_beside(path));
}

TEST(CoreLock, DefaultCanBeNamed) {
  const char* before = getenv("MLBENCH_CORE_LOCK");
  const std::string saved = before == nullptr ? "" : before;
  setenv("MLBENCH_CORE_LOCK", "/somewhere/lock", 1);
  EXPECT_EQ(default_core_lock(), "/somewhere/lock");
  unsetenv("MLBENCH_CORE_LOCK");
  EXPECT_EQ(default_core_lock().filename(), "mlbench-cores.lock");
  EXPECT_TRUE(default_core_lock().is_absolute());
  if (before != nullptr) setenv("MLBENCH_CORE_LOCK", saved.c_str(), 1);
}

}  // namespace
}  // namespace mlbench::supervise
