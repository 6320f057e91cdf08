#include "mlbench/cli/keeper.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "mlbench/base/signals.h"
#include "mlbench/base/system_error.h"
#include "mlbench/cli/context.h"

namespace mlbench::cli {

namespace {

constexpr std::chrono::seconds kFirstKeeperPause{1}, kLongestKeeperPause{30};
constexpr std::chrono::seconds kGoodLife{60};  // after a life of this length, the pause is the first one again

timespec to_timespec(std::chrono::seconds time) { return {.tv_sec = time.count(), .tv_nsec = 0}; }

// Waits that long for SIGINT or SIGTERM and returns it; 0: none came.
int asked_to_end(std::chrono::seconds within) {
  const sigset_t signals = end_signals();
  const timespec time = to_timespec(within);
  for (;;) {
    const int signal = sigtimedwait(&signals, nullptr, &time);
    if (signal > 0) return signal;
    if (errno == EAGAIN) return 0;
  }
}

// Waits for the end of `child` and returns its status as waitpid() gives it. SIGINT and SIGTERM are handed on to the
// child, and then `asked` is true.
int end_of(pid_t child, const sigset_t& signals, bool& asked) {
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    if (ended < 0 && errno != EINTR) throw_system_error("cannot wait for what is kept running", errno);
    const int signal = sigwaitinfo(&signals, nullptr);
    if (signal == SIGINT || signal == SIGTERM) {
      asked = true;
      kill(child, signal);
    }
  }
}

}  // namespace

std::optional<int> keep_running() {
  sigset_t signals = end_signals();
  sigset_t child_end;
  sigemptyset(&child_end);
  sigaddset(&child_end, SIGCHLD);
  sigaddset(&signals, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child_end, nullptr);
  const pid_t keeper = getpid();
  for (std::chrono::seconds pause = kFirstKeeperPause;;) {
    flush_output();
    const auto began = std::chrono::steady_clock::now();
    const pid_t child = fork();
    if (child < 0) throw_system_error("cannot start what is to be kept running", errno);
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != keeper) kill(getpid(), SIGTERM);
      sigprocmask(SIG_UNBLOCK, &child_end, nullptr);
      return std::nullopt;
    }
    bool asked = false;
    const int status = end_of(child, signals, asked);
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    if (asked) return 128 + WTERMSIG(status);
    if (std::chrono::steady_clock::now() - began > kGoodLife) pause = kFirstKeeperPause;
    say(fmt::format("process {} was ended by signal {} ({}): it is started again in {} s", child, WTERMSIG(status),
                    strsignal(WTERMSIG(status)), pause.count()));
    if (const int signal = asked_to_end(pause)) return 128 + signal;
    pause = std::min(2 * pause, kLongestKeeperPause);
  }
}

}  // namespace mlbench::cli
