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
#include <thread>
#include <utility>

#include "mlbench/base/environment.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/system_error.h"

namespace mlbench::supervise {
namespace {

// Creates the file readable and writable for all from its first moment, whatever the user's umask: others must be able
// to queue.
void create_for_all_users(const std::filesystem::path& path) {
  const mode_t mask = umask(0);
  const FileDescriptor made(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  umask(mask);
}

std::filesystem::path beside_path(const std::filesystem::path& core_lock) { return core_lock.string() + ".beside"; }

FileDescriptor open_beside(const std::filesystem::path& core_lock) {
  return FileDescriptor(open(beside_path(core_lock).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

[[noreturn]] void no_regular_file(const std::filesystem::path& path) {
  throw IoError(fmt::format("core lock {} is no regular file: remove it, or set {} to another path", path.string(),
                            variables::kCoreLock));
}

bool is_regular(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
}

FileDescriptor open_lock(const std::filesystem::path& path) {
  create_for_all_users(path);
  FileDescriptor fd(open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) throw_system_error("cannot open core lock " + path.string(), errno);
  if (!is_regular(fd.get())) no_regular_file(path);
  return fd;
}

// Tries to take the lock at once; `kind` is LOCK_EX or LOCK_SH.
bool try_flock(const FileDescriptor& fd, int kind) {
  if (flock(fd.get(), kind | LOCK_NB) == 0) return true;
  if (errno != EWOULDBLOCK && errno != EINTR) throw_system_error("cannot lock the cores", errno);
  return false;
}

// Locks one byte as flock(2) locks a file: the open file keeps the lock, whichever process has its descriptor.
bool try_byte(const FileDescriptor& fd, int at) {
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = at;
  range.l_len = 1;
  if (fcntl(fd.get(), F_OFD_SETLK, &range) == 0) return true;
  if (errno != EAGAIN && errno != EACCES && errno != EINTR) throw_system_error("cannot lock a core", errno);
  return false;
}

}  // namespace

std::filesystem::path default_core_lock() {
  if (const auto path = environment_variable(variables::kCoreLock)) return std::filesystem::absolute(*path);
  const std::filesystem::path run_lock = "/run/lock";
  return (access(run_lock.c_str(), W_OK | X_OK) == 0 ? run_lock : "/tmp") / "mlbench-cores.lock";
}

std::optional<FileLock> take_core_lock(const std::filesystem::path& path, std::chrono::milliseconds timeout) {
  create_for_all_users(path);
  auto lock = FileLock::acquire(path, timeout);
  if (lock && !is_regular(lock->fd())) no_regular_file(path);
  return lock;
}

std::vector<int> HeldCores::descriptors() const {
  std::vector<int> all;
  for (const FileDescriptor& lock : locks_) all.push_back(lock.get());
  return all;
}

CoreQueue::CoreQueue(std::filesystem::path core_lock, int64_t cores)
    : core_lock_(std::move(core_lock)), wanted_(static_cast<size_t>(cores)), allowed_(allowed_cores()) {
  if (wanted_ > allowed_.size()) {
    throw UserError(
        fmt::format("--share-host: the run needs {} cores of its own, and this program may use {}: give "
                    "less workers or threads (-c), or leave it out",
                    wanted_, allowed_.size()));
  }
}

std::optional<HeldCores> CoreQueue::take(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kLook{20};
  const std::filesystem::path turn = core_lock_.string() + ".turn";
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    if (!turn_) {
      FileDescriptor fd = open_lock(turn);
      if (try_flock(fd, LOCK_EX)) turn_ = std::move(fd);
    }
    auto held = !turn_ ? std::nullopt : wanted_ == 0 ? try_alone() : try_shared();
    if (held) {
      turn_.reset();
      return held;
    }
    if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(kLook);
  }
}

std::optional<HeldCores> CoreQueue::try_alone() const {
  HeldCores held;
  held.locks_.push_back(open_lock(core_lock_));
  return try_flock(held.locks_.back(), LOCK_EX) ? std::optional(std::move(held)) : std::nullopt;
}

std::optional<HeldCores> CoreQueue::try_shared() const {
  HeldCores held;
  held.locks_.push_back(open_lock(core_lock_));
  if (!try_flock(held.locks_.back(), LOCK_SH)) return std::nullopt;
  held.locks_.push_back(open_lock(core_lock_.string() + ".each"));
  for (const int core : allowed_) {
    if (held.cores_.size() == wanted_) break;
    if (try_byte(held.locks_.back(), core)) held.cores_.push_back(core);
  }
  // All or nothing: two runs that hold half of their cores each would wait for ever.
  return held.cores_.size() == wanted_ ? std::optional(std::move(held)) : std::nullopt;
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
