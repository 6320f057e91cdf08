#pragma once

// Tells a supervisor that it is to end: by SIGINT or SIGTERM, "stop\n" or the end of its standard input (attached), or
// the file RUN/control/stop.

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace mlbench::supervise {

// kStopNow: a second signal came, so whoever stops the run does not wait for anything.
enum class EndRequest { kStop, kStopNow, kLauncherLost };

class Control {
 public:
  // Catches SIGINT and SIGTERM from now on, including those that came since the program's first instruction. Ignores
  // SIGHUP, SIGPIPE and SIGXFSZ. The destructor restores their former handling. Precondition: a process has one Control
  // at a time.
  // Removes a stop file from before this moment. Precondition: the caller holds the lease and has not written its name
  // there yet, which request_stop() waits for.
  Control(std::filesystem::path run_dir, bool attached);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // What was asked so far; returns at once.
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
