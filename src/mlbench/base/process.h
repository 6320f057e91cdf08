#pragma once

// Child processes: always fork and exec of an argument list, never a shell. A child starts with default signal
// handling, an empty signal mask, the umask that the user gave this program (files.h), no variable of another launcher
// (program_start.h), and no descriptor except those named here.

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
  std::vector<std::string> arguments;              // [0]: the program's path, or a name without '/' found in PATH
  std::map<std::string, std::string> environment;  // added to (or replacing) the parent's
  std::filesystem::path working_directory;         // empty: the parent's, or / where that was removed
  std::optional<std::filesystem::path> output;     // standard output and error are appended to it; empty: inherited
  int standard_input = -1;                         // the descriptor for the child's standard input; -1: /dev/null
  int standard_output = -1;                        // descriptors; -1: as `output` says
  int standard_error = -1;
  std::vector<int> inherited;    // further descriptors that stay open in the child
  bool new_group = true;         // own process group, so that a signal reaches the whole subtree
  bool new_session = false;      // setsid: survives the terminal
  bool die_with_parent = false;  // PR_SET_PDEATHSIG(SIGKILL): when the thread that calls start() ends
};

// How a process ended: `code` is its exit code or, after a signal, 128 + signal, as shells print it.
struct ProcessEnd {
  int code = 0;
  std::optional<int> signal;
  bool operator==(const ProcessEnd&) const = default;
};

// A started process. The process outlives this object: who must not leave it behind calls stop(). When the end of a
// process with a group of its own is seen, everything left in that group is killed. Not thread-safe.
class ChildProcess {
 public:
  // Throws IoError when the program cannot be started; a failure of exec in the child counts, too.
  static ChildProcess start(const ProcessOptions& options);
  ChildProcess(ChildProcess&&) noexcept = default;
  ChildProcess& operator=(ChildProcess&&) noexcept = default;

  pid_t pid() const { return pid_; }
  // How the process ended; empty while it runs. The call blocks no longer than `timeout`.
  std::optional<ProcessEnd> wait(std::chrono::milliseconds timeout);
  // Sends the signal to the process, or to its whole group when it has one of its own. A process may be gone already.
  void signal(int signal_number) const;
  // Sends SIGTERM (and SIGCONT, for a stopped process), waits up to `patience`, then sends SIGKILL; reaps the process.
  ProcessEnd stop(std::chrono::milliseconds patience);

 private:
  ChildProcess(pid_t pid, bool group) : pid_(pid), group_(group) {}

  pid_t pid_;
  bool group_;
  std::optional<ProcessEnd> end_;
};

// Whether a name without '/' is found in PATH.
bool program_exists(const std::string& name);

struct ProcessOutput {
  ProcessEnd end;
  std::string standard_output;
  std::string standard_error;
};

// Runs a program to its end and collects both of its streams (which `options` must leave unset). When `timeout` passes,
// kills the group and throws CommTimeout with the command and the last line of its errors.
ProcessOutput run_process(const ProcessOptions& options, std::chrono::milliseconds timeout);

}  // namespace mlbench
