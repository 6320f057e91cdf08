#pragma once

// Child processes: always fork + exec of an argument list, never a shell.

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/files.h"

namespace mlbench {

struct ProcessOptions {
  std::vector<std::string> arguments;              // [0] is the program's path
  std::map<std::string, std::string> environment;  // added to (or replacing) the parent's
  std::optional<std::filesystem::path> output;     // standard output and error, appended; empty: inherited
  int standard_input = -1;                         // descriptor to be the child's standard input; -1: /dev/null
  std::vector<int> inherited;                      // further descriptors that stay open in the child
  bool new_group = true;                           // own process group, so that a signal reaches the whole subtree
  bool new_session = false;                        // setsid: survives the terminal
  bool die_with_parent = false;                    // PR_SET_PDEATHSIG(SIGKILL)
};

// How a process ended: an exit code, or a signal (then code is 128 + signal, as shells print it).
struct ProcessEnd {
  int code = 0;
  std::optional<int> signal;
};

class ChildProcess {
 public:
  // IoError when the program cannot be started (exec errors come back, too). All other descriptors are closed.
  static ChildProcess start(const ProcessOptions& options);
  ChildProcess(ChildProcess&&) noexcept = default;
  ChildProcess& operator=(ChildProcess&&) noexcept = default;

  pid_t pid() const { return pid_; }
  // Empty while it runs; never blocks longer than the timeout.
  std::optional<ProcessEnd> wait(std::chrono::milliseconds timeout);
  // To the whole group when it has one of its own. No error if it is gone already.
  void signal(int signal_number) const;
  // SIGTERM, up to `patience`, then SIGKILL; reaps.
  ProcessEnd stop(std::chrono::milliseconds patience);

 private:
  pid_t pid_ = -1;
  bool group_ = false;
  std::optional<ProcessEnd> end_;
};

struct ProcessOutput {
  ProcessEnd end;
  std::string standard_output;
  std::string standard_error;
};

// Runs to the end and collects both streams. When the timeout passes, the group is killed and CommError thrown.
ProcessOutput run_process(const ProcessOptions& options, std::chrono::milliseconds timeout);

}  // namespace mlbench
