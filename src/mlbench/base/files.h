#pragma once

// Files: whole reads, atomic writes, read-only mappings, advisory locks, temporary folders, and who may read a file. On
// failure each throws IoError with the path and the system's reason (DiskFull where there is no room).

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

// From now on, every new file and folder of this process is its user's alone (umask 077). Precondition: no thread has
// been started (program_start.h). Children start with the umask from before (process.h), less the bits that would shut
// out the owner, since no program works with those.
void keep_files_private();
// The umask that children start with; empty unless keep_files_private() was called.
std::optional<mode_t> umask_of_the_user();

// While an object of this class lives, new files have the user's umask: for files that the user named. Precondition:
// the program has one thread.
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

// Writes a file so that a reader sees either the old or the new content. The function writes under a temporary name in
// the same folder (no two calls share one), calls fsync, renames, and calls fsync for the folder. If anything fails,
// the temporary file is removed.
void write_file_atomically(const std::filesystem::path& path, std::string_view content);

// Flushes the file `fd` to the disk; `path` is for the message of the IoError.
void sync_file(int fd, const std::filesystem::path& path);
// Calls fsync for a folder, so that a rename inside the folder survives a crash.
void sync_directory(const std::filesystem::path& directory);
// Makes a folder, and the folders above it, where they are absent.
void make_folder(const std::filesystem::path& folder);
// Renames the folder `made` to `target`, in the place of what is there: a reader sees all of the old folder or all of
// the new. (Where the file system cannot exchange two folders, there is none for a moment.)
void replace_directory(const std::filesystem::path& made, const std::filesystem::path& target);

// Owns a file descriptor; -1 means that it owns none.
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

// Writes all of `content`, or throws IoError naming `what`. Short writes are continued, and EINTR is retried.
void write_all(int fd, std::string_view content, const std::string& what);

// A whole file, mapped read-only and shared: several processes on a host hold one copy in memory.
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

// An exclusive advisory lock (flock) on a file, which is created when absent. The lock is held until this object is
// destroyed and, where children inherit the descriptor, until the last of them exits.
class FileLock {
 public:
  // Waits up to `timeout`; zero means one try. Returns nothing when somebody else holds the lock.
  static std::optional<FileLock> acquire(const std::filesystem::path& path, std::chrono::milliseconds timeout);
  int fd() const { return fd_.get(); }

 private:
  explicit FileLock(FileDescriptor fd) : fd_(std::move(fd)) {}
  FileDescriptor fd_;
};

// A new folder among the system's temporary files. The destructor removes the folder and all that is in it.
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
