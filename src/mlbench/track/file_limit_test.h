#pragma once

// For tests of full disks.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace mlbench::track {

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

}  // namespace mlbench::track
