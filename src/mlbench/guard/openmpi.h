#pragma once

// Open MPI beside ranks whose guards it did not start, on hosts that nobody reaches but over the guards' links
// (Kubernetes). The guards start its programs: that of rank 0 its mpirun, all of them its daemons. What these start is
// `mlbench-guard agent HOST COMMAND...`, in place of ssh, and for each rank `mlbench-guard stub`; both turn to the
// guard beside them and stay until it is over. A stub hands over what a process of MPI finds in its environment: with
// that the guard starts the rank itself, and sees its end, its log and its memory as of any other.

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

// Within the words of such a program: the path of mlbench-guard.
inline constexpr const char* kGuardWord = "{guard}";

class OpenMpi {
 public:
  // What the programs say, goes to `log`.
  explicit OpenMpi(std::filesystem::path log);
  // They get a moment to end by themselves, then all is killed that is below this process.
  ~OpenMpi();
  OpenMpi(const OpenMpi&) = delete;
  OpenMpi& operator=(const OpenMpi&) = delete;

  // IoError when it cannot be started.
  void start(LaunchWord program);
  std::vector<int> fds() const;  // readable when there may be news; or a child ended
  // For the supervisor. Never waits.
  using News = std::variant<AgentWord, AskedWord, LaunchedEndWord, ErrorWord>;
  std::vector<News> news();
  // Of a process of MPI, once it was asked for: then nobody else is listened to any more.
  const std::map<std::string, std::string>& variables() const { return variables_; }
  std::vector<pid_t> pids() const;  // of the programs, until their end is told

 private:
  struct Program {
    std::string name;
    ChildProcess process;
    bool in_shell = false;
    bool told = false;  // that it ended
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

// Body of `mlbench-guard agent HOST COMMAND...` and `mlbench-guard stub`.
bool is_call(const std::vector<std::string>& arguments);
int call_guard(const std::vector<std::string>& arguments);

}  // namespace mlbench::guard
