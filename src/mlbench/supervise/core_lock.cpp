#include "mlbench/supervise/core_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "mlbench/base/errors.h"
#include "mlbench/base/paths.h"

namespace mlbench::supervise {
namespace {

// Readable and writable for all from its first moment, whatever the user's umask: others must be able to queue.
void create_for_all_users(const std::filesystem::path& path) {
  const mode_t mask = umask(0);
  const FileDescriptor made(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  umask(mask);
}

std::filesystem::path beside_path(const std::filesystem::path& core_lock) { return core_lock.string() + ".beside"; }

FileDescriptor open_beside(const std::filesystem::path& core_lock) {
  return FileDescriptor(open(beside_path(core_lock).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

}  // namespace

std::filesystem::path default_core_lock() {
  if (const auto path = environment_variable("MLBENCH_CORE_LOCK")) return std::filesystem::absolute(*path);
  const std::filesystem::path run_lock = "/run/lock";
  return (access(run_lock.c_str(), W_OK | X_OK) == 0 ? run_lock : "/tmp") / "mlbench-cores.lock";
}

std::optional<FileLock> take_core_lock(const std::filesystem::path& path, std::chrono::milliseconds timeout) {
  create_for_all_users(path);
  auto lock = FileLock::acquire(path, timeout);
  struct stat info {};
  if (lock && (fstat(lock->fd(), &info) != 0 || !S_ISREG(info.st_mode))) {
    throw IoError("core lock " + path.string() +
                  " is no regular file: remove it, or set MLBENCH_CORE_LOCK to another path");
  }
  return lock;
}

FileDescriptor show_beside(const std::filesystem::path& core_lock) {
  create_for_all_users(beside_path(core_lock));
  FileDescriptor fd = open_beside(core_lock);
  if (!fd || flock(fd.get(), LOCK_SH | LOCK_NB) != 0) {
    throw IoError("cannot lock " + beside_path(core_lock).string() + ": " + errno_text(errno));
  }
  return fd;
}

bool somebody_beside(const std::filesystem::path& core_lock) {
  const FileDescriptor fd = open_beside(core_lock);
  return fd && flock(fd.get(), LOCK_EX | LOCK_NB) != 0;
}

}  // namespace mlbench::supervise
