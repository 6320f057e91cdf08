#pragma once

// Ranks that a launcher of somebody else's starts on this host (mpirun) run under a guard each: a small process between
// launcher and rank that lets the supervisor see and signal the rank as if it were its own child, and keeps the
// launcher from acting on a rank's end before the supervisor has judged it.
//
//   guard         -> supervisor   {"rank"}                    once
//   supervisor    -> guard        {"output"}, descriptors     once: the log file, what the rank is to inherit
//   guard         -> supervisor   {"pid"} or {"error"}        the rank runs, in a group of its own; or could not start
//   guard         -> supervisor   {"code", "signal"}          how it ended
//
// over a socket with an abstract name, of processes of one user alone. Then the guard waits until the supervisor closes
// the connection, and exits with the rank's code. A supervisor that goes away earlier leaves the rank a few seconds to
// end by itself. A guard that is killed takes its rank with it.

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/json.h"

namespace mlbench::exec {

// The environment variable that holds the name of the supervisor's socket.
inline constexpr const char* kGuardVariable = "MLBENCH_GUARD";

// Body of `mlbench guard-rank COMMAND ...`: the rank is COMMAND with RANK, WORLD_SIZE, LOCAL_RANK and LOCAL_WORLD_SIZE
// as mpirun says. Returns the exit code. UserError when something that the supervisor gives is missing.
int guard_rank(const std::vector<std::string>& command);

// One end of the connection.
class GuardSocket {
 public:
  explicit GuardSocket(FileDescriptor socket) : socket_(std::move(socket)) {}
  int fd() const { return socket_.get(); }

  // IoError when the other end is gone.
  void send(const Json& message, std::span<const int> descriptors = {});

  struct Message {
    Json content;
    std::vector<FileDescriptor> descriptors;
  };
  enum class Status { kMessage, kNothing, kClosed };
  // Never waits.
  Status receive(Message& message);

 private:
  FileDescriptor socket_;
};

// The supervisor's side: where guards connect.
class GuardListener {
 public:
  GuardListener();
  const std::string& name() const { return name_; }  // the value of kGuardVariable
  int fd() const { return socket_.get(); }
  // The next connection of a process of this user; never waits.
  std::optional<GuardSocket> accept();

 private:
  std::string name_;
  FileDescriptor socket_;
};

}  // namespace mlbench::exec
