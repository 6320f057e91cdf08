#pragma once

// Files: whole reads, atomic writes, read-only mappings, advisory locks, temporary folders, and who may read them. All
// failures are IoError with the path and the system's reason (DiskFull where there is no room).

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mlbench {

// From now on every new file and folder is this user's alone (umask 077). Before any thread (program_start.h). Children
// start with the umask from before (process.h), less what it takes from the owner: no program works without that.
void keep_files_private();
// That umask of children, where there was such a call.
std::optional<mode_t> umask_of_the_user();

// While it lives, new files have the user's umask: for those that the user named. In programs of one thread.
class UserUmask {
 public:
  UserUmask();
  ~UserUmask();
  UserUmask(const UserUmask&) = delete;
  UserUmask& operator=(const UserUmask&) = delete;

 private:
  mode_t before_;
};

std::string read_file(const std::filesystem::path& path);

// A reader sees the old or the new content: temporary name in the same folder (no other call has the same), write,
// fsync, rename, fsync of the folder. The temporary file is removed when anything fails.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

// IoError if the disk refuses.
void sync_file(int fd, const std::filesystem::path& path);
// fsync of a folder, so that a rename inside it survives a crash.
void sync_directory(const std::filesystem::path& directory);
// Makes a folder, and those above it, where they are absent.
void make_folder(const std::filesystem::path& folder);
// Renames a folder to `target`, in the place of what is there: a reader sees all of the old one or of the new. (Where
// the file system cannot exchange them, for a moment there is none.)
void replace_directory(const std::filesystem::path& made, const std::filesystem::path& target);

// Owns a file descriptor; -1 means none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  ~FileDescriptor() { reset(); }
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = other.release();
    }
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release();
  void reset();

 private:
  int fd_ = -1;
};

// Writes everything or throws IoError naming `what` (short writes are continued, EINTR retried).
void write_all(int fd, std::string_view content, const std::string& what);

// A whole file mapped read-only and shared: several processes on a host hold one copy in memory.
class MappedFile {
 public:
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

// An exclusive advisory lock (flock) on a file that is created when absent; held until destruction, and, where a
// child inherits the descriptor, until the last holder exits.
class FileLock {
 public:
  // Waits up to `timeout` (zero: one try). Empty when somebody else holds it.
  static std::optional<FileLock> acquire(const std::filesystem::path& path, std::chrono::milliseconds timeout);
  int fd() const { return fd_.get(); }

 private:
  explicit FileLock(FileDescriptor fd) : fd_(std::move(fd)) {}
  FileDescriptor fd_;
};

// A new folder among the system's temporary files, removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace mlbench
