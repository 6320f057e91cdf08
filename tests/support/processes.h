#pragma once

// What tests with real processes share: patience, environment variables, and finding every process they started.

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"
#include "mlbench/base/process_status.h"

namespace mlbench::test {

inline constexpr std::chrono::seconds kPatience{180};

// Whether the condition comes true within the patience.
inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

// An environment variable of this process and those that it starts, for a while.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Variable() { unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

// Runs `mlbench` with a home and cores of its own in `folder`.
inline ProcessOutput mlbench(const TemporaryFolder& folder, std::vector<std::string> arguments,
                             std::map<std::string, std::string> environment = {}) {
  ProcessOptions options;
  options.arguments = std::move(arguments);
  options.arguments.insert(options.arguments.begin(), environment_variable("MLBENCH_TEST_MLBENCH").value());
  options.environment = std::move(environment);
  options.environment.insert({{"MLBENCH_HOME", folder / "home"}, {"MLBENCH_CORE_LOCK", folder / "cores"}});
  return run_process(options, 2 * kPatience);
}

// Why `mlbench list KIND` says that NAME is not available; "" where it is.
inline std::string why_absent(const TemporaryFolder& folder, const std::string& kind, const std::string& name) {
  for (const Json& row : Json::parse(mlbench(folder, {"list", kind, "--json"}).standard_output)) {
    if (row["name"] == name && !row["available"]) return name + ": " + row["reason"].get<std::string>();
  }
  return "";
}

// A file of /proc, or "" where its process has ended. A stream's iterators would throw then.
inline std::string read_proc(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// Marks all processes started while it lives, and theirs: found by it, whoever their parent is by then.
class ProcessMark {
 public:
  explicit ProcessMark(const std::string& value)
      : text_("MLBENCH_TEST_MARK=" + value), variable_("MLBENCH_TEST_MARK", value) {}

  std::vector<pid_t> processes() const {
    std::vector<pid_t> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const std::string name = entry.path().filename();
      if (name.find_first_not_of("0123456789") != std::string::npos) continue;
      const auto pid = static_cast<pid_t>(std::stol(name));
      const auto status = process_status(pid);
      if (!status || status->ended() || pid == getpid()) continue;
      if (read_proc(entry.path() / "environ").find(text_) != std::string::npos) found.push_back(pid);
    }
    return found;
  }

  // A failing test leaves nothing behind either.
  void kill_all() const {
    for (const pid_t pid : processes()) kill(pid, SIGKILL);
  }

 private:
  std::string text_;
  Variable variable_;
};

}  // namespace mlbench::test
