#include "mlbench/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <thread>
#include <vector>

#include "mlbench/base/atomic_file.h"
#include "mlbench/base/process_status.h"
#include "mlbench/base/system_error.h"
#include "mlbench/base/temporary_folders.h"

namespace mlbench {

namespace {

[[noreturn]] void fail(const std::string& action, const std::filesystem::path& path) {
  throw_system_error("cannot " + action + " " + path.string(), errno);
}

FileDescriptor open_or_fail(const std::filesystem::path& path, int flags, const char* action) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC, 0644);
  if (fd < 0) fail(action, path);
  return FileDescriptor(fd);
}

std::optional<mode_t> users_umask;

}  // namespace

void keep_files_private() {
  const mode_t before = umask(077);
  if (!users_umask) users_umask = before & 077;
}

std::optional<mode_t> umask_of_the_user() { return users_umask; }

UserUmask::UserUmask() : before_(umask(077)) { umask(users_umask.value_or(before_)); }

UserUmask::~UserUmask() { umask(before_); }

int FileDescriptor::release() {
  const int fd = fd_;
  fd_ = -1;
  return fd;
}

void FileDescriptor::reset() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

std::string read_file(const std::filesystem::path& path) {
  const FileDescriptor fd = open_or_fail(path, O_RDONLY, "read");
  std::string content;
  char buffer[65536];
  for (;;) {
    const ssize_t count = read(fd.get(), buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("read", path);
    if (count == 0) return content;
    content.append(buffer, static_cast<size_t>(count));
  }
}

void write_all(int fd, std::string_view content, const std::string& what) {
  while (!content.empty()) {
    const ssize_t count = write(fd, content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_system_error("cannot write " + what, errno);
    content.remove_prefix(static_cast<size_t>(count));
  }
}

void sync_file(int fd, const std::filesystem::path& path) {
  if (fsync(fd) != 0) fail("sync", path);
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw_system_error("cannot create " + folder.string(), error.value());
}

void sync_directory(const std::filesystem::path& directory) {
  const FileDescriptor fd = open_or_fail(directory, O_RDONLY | O_DIRECTORY, "open");
  sync_file(fd.get(), directory);
}

void replace_directory(const std::filesystem::path& made, const std::filesystem::path& target) {
  if (rename(made.c_str(), target.c_str()) == 0) return;
  if (errno != ENOTEMPTY && errno != EEXIST) fail("rename to", target);
  std::error_code ignored;
  if (renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
    std::filesystem::remove_all(made, ignored);
    return;
  }
  std::filesystem::remove_all(target, ignored);
  if (rename(made.c_str(), target.c_str()) != 0) fail("rename to", target);
}

void write_file_atomically(const std::filesystem::path& path, std::string_view content) {
  AtomicFile file(path);
  file.write(content);
  file.commit();
}

MappedFile::MappedFile(const std::filesystem::path& path) {
  const FileDescriptor fd = open_or_fail(path, O_RDONLY, "open");
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) fail("inspect", path);
  const auto size = static_cast<size_t>(info.st_size);
  if (size == 0) return;  // mmap refuses empty mappings
  void* base = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (base == MAP_FAILED) fail("map", path);
  bytes_ = {static_cast<const std::byte*>(base), size};
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::optional<FileLock> FileLock::acquire(const std::filesystem::path& path, std::chrono::milliseconds timeout) {
  // In sticky world-writable folders the kernel may refuse O_CREAT on another user's file: open first, create second.
  int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0 && errno == EACCES) fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0 && errno == ENOENT) {
    fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  }
  if (fd < 0) fail("open lock file", path);
  FileDescriptor owned(fd);
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) fail("lock", path);
    if (std::chrono::steady_clock::now() >= deadline) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return FileLock(std::move(owned));
}

namespace {
// The prefix begins the name of every temporary folder of a process. Processes that share the system's temporary files
// may have the same number in several PID namespaces.
std::string prefix_of_temporary_folders(pid_t pid) { return fmt::format("mlbench-{}.{}-", own_pid_namespace(), pid); }
}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string name =
      (std::filesystem::temp_directory_path() / (prefix_of_temporary_folders(getpid()) + "XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr) fail("create", name);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

namespace {
bool is_own_folder(const std::filesystem::path& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

// Removes this user's folders in `folder` whose names begin with `prefix`.
void remove_folders(const std::filesystem::path& folder, std::string_view prefix) {
  std::error_code error;
  std::vector<std::filesystem::path> left;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.starts_with(prefix) && is_own_folder(entry->path())) left.push_back(entry->path());
  }
  for (const std::filesystem::path& one : left) std::filesystem::remove_all(one, error);
}
}  // namespace

void remove_temporary_folders_of(pid_t pid) {
  std::error_code error;
  remove_folders(std::filesystem::temp_directory_path(error), prefix_of_temporary_folders(pid));
}

void remove_unfinished(const std::filesystem::path& folder) { remove_folders(folder, kUnfinished); }

}  // namespace mlbench
