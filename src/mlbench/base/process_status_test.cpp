#include "mlbench/base/process_status.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace mlbench {
namespace {

TEST(ProcessStatus, OfThisProcess) {
  const auto status = process_status(getpid());
  ASSERT_TRUE(status);
  EXPECT_EQ(status->state, 'R');
  EXPECT_EQ(status->parent, getppid());
  EXPECT_EQ(status->group, getpgrp());
  EXPECT_EQ(status->session, getsid(0));
  EXPECT_GT(status->start_time, 0u);
  EXPECT_GT(status->pages, 0);
  EXPECT_FALSE(status->ended());
  EXPECT_FALSE(process_status(1 << 29)) << "no such process";
}

TEST(ProcessStatus, SeesAStoppedProcessAndItsEnd) {
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  EXPECT_EQ(process_status(child)->state, 'T');
  kill(child, SIGKILL);
  siginfo_t ended{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(process_status(child)->ended());
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(process_status(child));
}

TEST(ProcessStatus, FieldsAreCountedFromBehindTheName) {
  const std::string fields =
      " S 7 8 9 34816 9 4194304 1 2 3 4 100 20 3000 400 20 0 5 0 123456 7890 77 18446744073709551615 1 1";
  for (const std::string name : {"sh", "a) R 1 (b", "tab\tand\nline", ""}) {
    const auto status = parse_process_status("42 (" + name + ")" + fields + "\n");
    ASSERT_TRUE(status) << name;
    EXPECT_EQ(status->state, 'S');
    EXPECT_EQ(status->parent, 7);
    EXPECT_EQ(status->group, 8);
    EXPECT_EQ(status->session, 9);
    EXPECT_EQ(status->processor_ticks, 120);
    EXPECT_EQ(status->waited_ticks, 3400);
    EXPECT_EQ(status->start_time, 123456u);
    EXPECT_EQ(status->pages, 77);
  }
  for (const std::string text : {"", "42", "42 (sh", "42 (sh)", "42 (sh) S 7 8 9"}) {
    EXPECT_FALSE(parse_process_status(text)) << text;
  }
}

}  // namespace
}  // namespace mlbench
