#include "mlbench/base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>

#include "mlbench/base/system_error.h"

namespace mlbench {

namespace {

[[noreturn]] void cannot(const char* action, const std::filesystem::path& path) {
  throw_system_error(std::string("cannot ") + action + " " + path.string(), errno);
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path) : path_(std::move(path)) {
  static std::atomic<uint64_t> calls{0};
  do {  // a name that is there is left over from another process with this number
    temporary_ = path_.string() + ".tmp" + std::to_string(getpid()) + "-" + std::to_string(calls.fetch_add(1));
    fd_ = FileDescriptor(open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  } while (!fd_ && errno == EEXIST);
  if (!fd_) cannot("write", temporary_);
}

AtomicFile::~AtomicFile() {
  if (fd_) unlink(temporary_.c_str());
}

void AtomicFile::write(std::string_view bytes) { write_all(fd_.get(), bytes, temporary_.string()); }

void AtomicFile::commit() {
  sync_file(fd_.get(), temporary_);
  if (rename(temporary_.c_str(), path_.c_str()) != 0) cannot("rename to", path_);
  fd_.reset();
  sync_directory(path_.has_parent_path() ? path_.parent_path() : ".");
}

}  // namespace mlbench
