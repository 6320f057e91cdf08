#pragma once

// For tests of the two recorders: where they write, and disks that are full.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <string>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/track/recorder.h"

namespace mlbench::track {

class RecordingTest : public testing::Test {
 protected:
  RecorderOptions options() const {
    RecorderOptions options;
    options.run_dir = folder_.path();
    options.run_id = 77;
    options.segment = 2;
    options.rank = 3;
    return options;
  }

  TemporaryFolder folder_;
  ManualClock clock_;
};

// Runs `body` under a file-size limit, which behaves like a full disk, and returns its exit code. `body` runs in a
// child process, because limits are the process's.
template <typename Body>
int in_child_with_file_limit(rlim_t bytes, Body&& body) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit limit{bytes, bytes};
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Returns 0, the exit code of such a child, where `recorder` has failed with an error that names `file`, before and
// after it is closed.
template <typename AnyRecorder>
int failure_naming(const std::string& file, AnyRecorder& recorder) {
  const auto error = recorder.failed();
  if (!error) return 11;
  try {
    std::rethrow_exception(error);
  } catch (const IoError& what) {
    const std::string text = what.what();
    if (text.find(file) == std::string::npos || text.find("File too large") == std::string::npos) return 12;
  }
  recorder.close();
  return recorder.failed() == error ? 0 : 13;
}

}  // namespace mlbench::track
