#include "mlbench/supervise/core_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "mlbench/base/paths.h"
#include "mlbench/base/system_error.h"

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

std::string describe_holder(const std::filesystem::path& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return "";
  // "1: FLOCK  ADVISORY  WRITE 123 08:01:4711 0 EOF"
  const std::string file = fmt::format(" {:02x}:{:02x}:{} ", major(info.st_dev), minor(info.st_dev), info.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream words(line);
    std::string number, kind, mode, access;
    pid_t pid = 0;
    if (line.find(file) == std::string::npos || !(words >> number >> kind >> mode >> access >> pid) || pid <= 0)
      continue;
    const std::string folder = fmt::format("/proc/{}", pid);
    if (stat(folder.c_str(), &info) != 0) return fmt::format("process {}, which has ended: its ranks go on", pid);
    const passwd* user = getpwuid(info.st_uid);
    std::string command;
    std::ifstream(folder + "/comm") >> command;
    return fmt::format("process {} of user {}: {}", pid, user ? user->pw_name : std::to_string(info.st_uid), command);
  }
  return "";
}

FileDescriptor show_beside(const std::filesystem::path& core_lock) {
  create_for_all_users(beside_path(core_lock));
  FileDescriptor fd = open_beside(core_lock);
  if (!fd || flock(fd.get(), LOCK_SH | LOCK_NB) != 0) {
    throw_system_error("cannot lock " + beside_path(core_lock).string(), errno);
  }
  return fd;
}

bool somebody_beside(const std::filesystem::path& core_lock) {
  const FileDescriptor fd = open_beside(core_lock);
  return fd && flock(fd.get(), LOCK_EX | LOCK_NB) != 0;
}

}  // namespace mlbench::supervise
