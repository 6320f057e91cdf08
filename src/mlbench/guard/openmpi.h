#pragma once

// Open MPI beside ranks whose guards it did not start, on hosts that nobody reaches but over the guards' links
// (Kubernetes). The guards start its programs: that of rank 0 starts mpirun, and all of them start daemons. These
// programs start `mlbench-guard agent HOST COMMAND...` in place of ssh, and `mlbench-guard stub` for each rank. Agents
// and stubs turn to the guard beside them, and stay until that guard lets them go. A stub hands over what a process of
// MPI finds in its environment. With that the guard starts the rank itself, and sees its end, its log and its memory as
// those of any other rank.

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "mlbench/base/process.h"
#include "mlbench/guard/channel.h"
#include "mlbench/guard/words.h"

namespace mlbench::guard {

// Stands for the path of mlbench-guard in the words of a program of Open MPI's.
inline constexpr const char* kGuardWord = "{guard}";

// The programs of Open MPI's that a guard runs, and the agents and stubs that these start.
class OpenMpi {
 public:
  // The output of the programs is appended to `log`.
  explicit OpenMpi(std::filesystem::path log);
  // Gives the programs 1.5 s to end by themselves, then kills all that is below this process.
  ~OpenMpi();
  OpenMpi(const OpenMpi&) = delete;
  OpenMpi& operator=(const OpenMpi&) = delete;

  // Throws IoError when the program cannot be started.
  void start(LaunchWord program);
  std::vector<int> fds() const;  // one is readable when there may be news, except of the end of a program
  // Returns what the supervisor is to be told since the last call. Never waits.
  using News = std::variant<AgentWord, AskedWord, LaunchedEndWord, ErrorWord>;
  std::vector<News> news();
  // The variables of a process of MPI, once the rank was asked for. From then on nobody else is listened to.
  const std::map<std::string, std::string>& variables() const { return variables_; }
  std::vector<pid_t> pids() const;  // those of the programs whose end was not told yet

 private:
  struct Program {
    std::string name;
    ChildProcess process;
    bool in_shell = false;
    bool told = false;  // whether its end was told
  };
  struct Caller {
    std::unique_ptr<Channel> channel;
    std::map<std::string, std::string> variables = {};
    bool gone = false;
  };
  void hear(Caller& caller, std::vector<News>& news);
  std::string said_at_last() const;

  const std::filesystem::path log_;
  std::optional<Listener> listener_;
  const std::string address_;
  std::vector<Program> programs_;
  std::vector<Caller> callers_;
  bool asked_ = false;
  std::map<std::string, std::string> variables_;
};

// The body of `mlbench-guard agent HOST COMMAND...` and `mlbench-guard stub`. is_call() says whether `arguments` are
// those of one of the two. call_guard() returns an exit code. It throws UserError where no guard is beside this
// process, and IoError where that guard is gone.
bool is_call(const std::vector<std::string>& arguments);
int call_guard(const std::vector<std::string>& arguments);

}  // namespace mlbench::guard
