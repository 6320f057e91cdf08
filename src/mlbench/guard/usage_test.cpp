#include "mlbench/guard/usage.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <functional>

#include "mlbench/base/process_status.h"

namespace mlbench::guard {
namespace {

using namespace std::chrono_literals;

constexpr auto kBurnt = 300ms;
constexpr size_t kHeld = 64 << 20;

// A small tree of processes of this one, below a process that stands for a guard.
class UsageTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!usage_below(getpid())) GTEST_SKIP() << "missing capability: /proc/PID/task/TID/children";
    ASSERT_EQ(pipe(said_), 0);
  }
  void TearDown() override {
    if (guard_ > 0) kill(-guard_, SIGKILL);
    if (guard_ > 0) waitpid(guard_, nullptr, 0);
    for (const int fd : said_) close(fd);
  }

  static pid_t forked(const std::function<void()>& body) {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    body();
    _exit(0);
  }

  static void burn() {
    timespec used{};
    do {
      clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    } while (std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec) < kBurnt);
  }
  static void hold() {
    // The memory is resident at once, with no store for which a sanitizer would keep memory of its own.
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
    if (mmap(nullptr, kHeld, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) _exit(1);
  }
  // The memory of this process: a copy of it that does nothing has no more. It is much with a sanitizer.
  static int64_t own_memory() { return process_status(getpid())->pages * sysconf(_SC_PAGESIZE); }
  void say_and_wait(pid_t what = 0) const {
    (void)!write(said_[1], &what, sizeof what);
    for (;;) pause();
  }

  // Starts the process that stands for a guard; `body` starts its children.
  void start_guard(const std::function<void()>& body) {
    guard_ = forked([&] {
      setpgid(0, 0);
      body();
    });
    setpgid(guard_, guard_);
  }
  pid_t heard() const {
    pid_t what = -1;
    EXPECT_EQ(read(said_[0], &what, sizeof what), static_cast<ssize_t>(sizeof what));
    return what;
  }

  int said_[2] = {-1, -1};
  pid_t guard_ = 0;
};

TEST_F(UsageTest, AllOfATreeCounts) {
  start_guard([&] {
    forked([&] {  // the rank
      waitpid(forked(burn), nullptr, 0);
      forked([&] {
        burn();
        hold();
        say_and_wait();
      });
      burn();
      say_and_wait();
    });
    for (;;) pause();
  });
  heard();
  heard();
  const auto usage = usage_below(guard_);
  ASSERT_TRUE(usage);
  EXPECT_GE(usage->processor, 3 * kBurnt - 50ms) << "the rank, its child, and one that has ended";
  EXPECT_LT(usage->processor, 3 * kBurnt + 2s);
  EXPECT_GE(usage->memory_bytes, int64_t{kHeld});
  EXPECT_LT(usage->memory_bytes, 2 * own_memory() + int64_t{kHeld} * 3 / 2) << "two copies of us";
}

TEST_F(UsageTest, TheGuardItselfAndWhatIsLeftOutDoNot) {
  start_guard([&] {
    const pid_t other = forked([&] {
      burn();
      hold();
      say_and_wait();
    });
    forked([&] { say_and_wait(); });
    burn();
    hold();
    say_and_wait(other);
  });
  const pid_t other = heard() + heard() + heard();  // all but one are 0
  EXPECT_GE(usage_below(guard_)->processor, kBurnt - 20ms);
  const auto usage = usage_below(guard_, {{other}});
  EXPECT_LT(usage->processor, kBurnt / 2);
  EXPECT_LT(usage->memory_bytes, own_memory() + int64_t{kHeld} / 2);
}

TEST_F(UsageTest, OfNobodyNothingIsKnown) { EXPECT_FALSE(usage_below(1 << 29)); }

TEST(UsageText, GoesBothWays) {
  const auto usage = Usage::parse(Usage{1'500'000us, 4096}.text());
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->processor, 1500ms);
  EXPECT_EQ(usage->memory_bytes, 4096);
  EXPECT_FALSE(usage->network);
  const auto more = Usage::parse(Usage{1'500'000us, 4096, NetworkBytes{7, 1'000'000'000'000'000'001}}.text());
  ASSERT_TRUE(more);
  EXPECT_EQ(more->memory_bytes, 4096);
  EXPECT_EQ(more->network, (NetworkBytes{7, 1'000'000'000'000'000'001}));
}

TEST(UsageText, NonsenseIsEmpty) {
  for (const char* text : {"",
                           " ",
                           "1",
                           "1 ",
                           " 1",
                           "1 2 ",
                           "1 2 3",
                           "1 2 3 ",
                           "1 2 3 4 ",
                           "1 2 3 4 5",
                           "1 2 3 -4",
                           "1 2  3 4",
                           "1  2",
                           "-1 2",
                           "1 -2",
                           "1.5 2",
                           "nan 2",
                           "1 inf",
                           "1000000000000001 0",
                           "0 1000000000000001",
                           "99999999999999999999 1",
                           "0x1 2"}) {
    EXPECT_FALSE(Usage::parse(text)) << "'" << text << "'";
  }
}

}  // namespace
}  // namespace mlbench::guard
