#include "mlbench/supervise/core_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/paths.h"

namespace mlbench::supervise {

std::filesystem::path default_core_lock() {
  if (const auto path = environment_variable("MLBENCH_CORE_LOCK")) return std::filesystem::absolute(*path);
  const std::filesystem::path run_lock = "/run/lock";
  return (access(run_lock.c_str(), W_OK | X_OK) == 0 ? run_lock : "/tmp") / "mlbench-cores.lock";
}

std::optional<FileLock> take_core_lock(const std::filesystem::path& path, std::chrono::milliseconds timeout) {
  // Readable and writable for all from its first moment, whatever the user's umask: others must be able to queue.
  const mode_t mask = umask(0);
  FileDescriptor(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  umask(mask);
  auto lock = FileLock::acquire(path, timeout);
  struct stat info {};
  if (lock && (fstat(lock->fd(), &info) != 0 || !S_ISREG(info.st_mode))) {
    throw IoError("core lock " + path.string() + " is no regular file: remove it, or set MLBENCH_CORE_LOCK to another path");
  }
  return lock;
}

}  // namespace mlbench::supervise
