#include "mlbench/track/spool_file.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "mlbench/base/errors.h"
#include "mlbench/base/system_error.h"

namespace mlbench::track {

namespace fs = std::filesystem;

SpoolFile::SpoolFile(const fs::path& path) : path_(path) {
  // Beyond RLIMIT_FSIZE a write must return EFBIG instead of killing the process.
  signal(SIGXFSZ, SIG_IGN);
  // A file that exists would be the measurements of somebody else.
  fd_ = FileDescriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd_) throw_system_error("cannot create " + path.string(), errno);
}

void SpoolFile::begin(const std::string& header) {
  const size_t end = header.size();
  if (const auto failure = append(header, {&end, 1})) std::rethrow_exception(failure);
  sync_directory(path_.parent_path());
}

std::exception_ptr SpoolFile::append(std::string_view bytes, std::span<const size_t> ends) {
  if (broken_ || bytes.empty()) return nullptr;
  try {
    write_all(fd_.get(), bytes, path_.string());
    size_ += bytes.size();
    return nullptr;
  } catch (const IoError&) {
    broken_ = true;
    keep_whole(ends);
    return std::current_exception();
  }
}

std::exception_ptr SpoolFile::sync() {
  if (broken_) return nullptr;
  try {
    sync_file(fd_.get(), path_);
    return nullptr;
  } catch (const IoError&) {
    broken_ = true;
    return std::current_exception();
  }
}

void SpoolFile::keep_whole(std::span<const size_t> ends) {
  const off_t end = lseek(fd_.get(), 0, SEEK_END);
  if (end < 0) return;
  const auto torn = std::upper_bound(ends.begin(), ends.end(), static_cast<size_t>(end) - size_);
  const size_t whole = torn == ends.begin() ? 0 : *std::prev(torn);
  // A reader also ignores a torn end, so nothing need be done if this fails.
  [[maybe_unused]] const int result = ftruncate(fd_.get(), static_cast<off_t>(size_ + whole));
}

}  // namespace mlbench::track
