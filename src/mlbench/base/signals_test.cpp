#include "mlbench/base/signals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mlbench/base/program_start.h"

namespace mlbench {
namespace {

// In processes of their own, which the signal may end.
int status_of(void (*body)()) {
  const pid_t child = fork();
  if (child == 0) {
    begin_program({.held = end_signals()});
    body();
    _exit(7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST(EndSignals, AreHeldUntilSomebodyActsOnThem) {
  const int held = status_of([] { raise(SIGINT); });
  EXPECT_TRUE(WIFEXITED(held) && WEXITSTATUS(held) == 7);
  const int released = status_of([] {
    raise(SIGTERM);
    release_end_signals();
  });
  EXPECT_TRUE(WIFSIGNALED(released) && WTERMSIG(released) == SIGTERM);
  const int handled = status_of([] {
    raise(SIGINT);
    signal(SIGINT, [](int) { _exit(3); });
    release_end_signals();
  });
  EXPECT_TRUE(WIFEXITED(handled) && WEXITSTATUS(handled) == 3);
}

}  // namespace
}  // namespace mlbench
