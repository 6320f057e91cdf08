#include "mlbench/comm/shm/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>

#include "mlbench/base/errors.h"

namespace mlbench::comm::shm_backend {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

bool exists(const std::string& name) { return std::filesystem::exists("/dev/shm/" + name); }

// The segment that a process left behind when it ended.
std::string left_behind() {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const std::string name = new_segment_name("a run");
    const Segment segment = Segment::create(name, 4096);
    _exit(write(ends[1], name.data(), name.size()) == static_cast<ssize_t>(name.size()) ? 0 : 1);
  }
  char name[256] = {};
  EXPECT_GT(read(ends[0], name, sizeof name - 1), 0);
  int status = -1;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
  close(ends[0]);
  close(ends[1]);
  return name;
}

TEST(Segment, IsTheSameMemoryForAll) {
  Segment own = Segment::create(new_segment_name("17/segment2/"), 10000);
  own.reserve(0, 10000);
  EXPECT_TRUE(std::all_of(own.data(), own.data() + 10000, [](std::byte byte) { return byte == std::byte{0}; }));
  const auto mapped = [&] {
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
      const std::string name = entry.path().filename().string();
      if (maker_of(name) == own_mark() && name.find(".17_segment2_.") != std::string::npos) return Segment::open(name);
    }
    throw CommError("there is none");
  };
  const Segment other = mapped();
  ASSERT_EQ(other.size(), 10000U);
  EXPECT_NE(other.data(), own.data());
  own.data()[9999] = std::byte{7};
  EXPECT_EQ(other.data()[9999], std::byte{7});
  // The memory stays shared when the name is removed.
  own.unlink();
  EXPECT_THROW(mapped(), CommError);
  other.data()[0] = std::byte{8};
  EXPECT_EQ(own.data()[0], std::byte{8});
}

TEST(Segment, IsForThisUserAlone) {
  const std::string name = new_segment_name("run");
  const Segment segment = Segment::create(name, 4096);
  struct stat info {};
  ASSERT_EQ(stat(("/dev/shm/" + name).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  ASSERT_EQ(chmod(("/dev/shm/" + name).c_str(), 0666), 0);
  EXPECT_THAT([&] { Segment::open(name); }, ThrowsMessage<CommError>(HasSubstr("is not of this user alone")));
  EXPECT_THAT([&] { Segment::create(name, 4096); }, ThrowsMessage<CommError>(HasSubstr("File exists")));
}

TEST(Segment, TakesItsNameAway) {
  const std::string name = new_segment_name("run");
  {
    const Segment segment = Segment::create(name, 4096);
    EXPECT_TRUE(exists(name));
  }
  EXPECT_FALSE(exists(name));
  EXPECT_THAT([&] { Segment::open(name); }, ThrowsMessage<CommError>(HasSubstr("cannot open shared memory")));
}

// A full /dev/shm gives an error, instead of SIGBUS at the first access.
TEST(Segment, ThatFindsNoRoomSaysSo) {
  struct statvfs disk {};
  ASSERT_EQ(statvfs("/dev/shm", &disk), 0);
  if (disk.f_blocks == 0) GTEST_SKIP() << "missing capability: a limited /dev/shm";
  const size_t too_much = 2 * static_cast<size_t>(disk.f_blocks) * disk.f_frsize;
  Segment segment = Segment::create(new_segment_name("run"), too_much);
  EXPECT_THAT([&] { segment.reserve(0, too_much); },
              ThrowsMessage<CommError>(
                  testing::AllOf(StartsWith(fmt::format("no room for {} bytes of shared memory in /dev/shm", too_much)),
                                 HasSubstr("No space left on device"), HasSubstr("--shm-size"))));
}

TEST(SegmentName, TellsItsMaker) {
  EXPECT_EQ(maker_of(new_segment_name("17/segment2/")), own_mark());
  EXPECT_EQ(maker_of(new_segment_name("")), own_mark());
  EXPECT_EQ(maker_of(new_segment_name("../../.tmp/" + std::string(300, 'x'))), own_mark());
  EXPECT_LT(new_segment_name(std::string(1000, 'x')).size(), 200U);
  EXPECT_NE(new_segment_name("run"), new_segment_name("run"));
  for (const char* name : {"", "mlbench-shm", "mlbench-shm.1.2.3.run", "other.1.2.3.run.0a",
                           "mlbench-shm.1.2.3x.run.0a", "mlbench-shm.1.2.3.run.0a.more", "mlbench-shm.1..3.run.0a"}) {
    EXPECT_EQ(maker_of(name), std::nullopt) << name;
  }
}

TEST(Segment, OfADeadProcessIsCollectedThoseOfTheLivingStay) {
  const std::string living = new_segment_name("run");
  const Segment segment = Segment::create(living, 4096);
  const std::string dead = left_behind();
  collect_dead_segments();
  EXPECT_FALSE(exists(dead));
  EXPECT_TRUE(exists(living));
}

TEST(ProcessMark, HasEndedWhenTheProcessHas) {
  EXPECT_FALSE(has_ended(own_mark()));
  EXPECT_FALSE(has_ended(ProcessMark()));
  const pid_t pid = fork();
  if (pid == 0) {
    pause();
    _exit(0);
  }
  // Another process that got the same pid, and one of a namespace that cannot be looked into.
  ProcessMark child = own_mark();
  child.pid = pid;
  child.start_time = 1;
  EXPECT_TRUE(has_ended(child));
  child.pid_namespace += 1;
  EXPECT_FALSE(has_ended(child));
  EXPECT_EQ(kill(pid, SIGKILL), 0);
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

// A killed process stays in the table until its parent has asked for it.
TEST(ProcessMark, AZombieHasEnded) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    const ProcessMark own = own_mark();
    if (write(ends[1], &own, sizeof own) != sizeof own) _exit(1);
    pause();
    _exit(0);
  }
  ProcessMark child;
  ASSERT_EQ(read(ends[0], &child, sizeof child), static_cast<ssize_t>(sizeof child));
  EXPECT_EQ(child.pid, pid);
  EXPECT_FALSE(has_ended(child));
  EXPECT_EQ(kill(pid, SIGKILL), 0);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(has_ended(child));
  EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
  EXPECT_TRUE(has_ended(child));
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace mlbench::comm::shm_backend
