#pragma once

// How a supervisor is told to end: SIGINT or SIGTERM, "stop\n" or the end of its standard input (attached), or the file
// RUN/control/stop.

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace mlbench::supervise {

enum class EndRequest { kStop, kLauncherLost };

class Control {
 public:
  // From now on signals are caught, also those that came since the program's first instruction (SIGHUP, SIGPIPE and
  // SIGXFSZ are ignored); their former handling comes back on destruction. One at a time in a process. A stop file from
  // before this moment is removed: who has the lease calls this before the lease says its name (request_stop waits).
  Control(std::filesystem::path run_dir, bool attached);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // What was asked so far; never waits.
  std::optional<EndRequest> poll();

 private:
  struct SavedSignals;
  std::optional<EndRequest> read_input();

  std::filesystem::path stop_file_;
  bool attached_;
  std::string input_;
  std::unique_ptr<SavedSignals> saved_;
};

}  // namespace mlbench::supervise
