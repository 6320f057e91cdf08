#include "mlbench/image/index/sample_index.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "mlbench/base/errors.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/system_error.h"

namespace mlbench::image {

namespace {

FileDescriptor open_plain(int folder, const std::string& name, const std::string& path) {
  // Never waits for a pipe, never follows a link that came into the place of a file.
  FileDescriptor file(openat(folder, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (!file && errno == ELOOP) throw UserError(path + ": became a link since the index was made");
  if (!file) throw_system_error("cannot read " + path, errno);
  return file;
}

// Data sets may have more shards than a process may open by default, often 1,024. Raises this number as far as a
// process may itself.
bool allow_more_files() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

}  // namespace

SampleFiles::SampleFiles(const SampleIndex& index) : index_(index) {
  for (const std::filesystem::path& shard : index.shards) {
    const auto open_shard = [&] { return FileDescriptor(open(shard.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)); };
    FileDescriptor file = open_shard();
    if (!file && errno == EMFILE && allow_more_files()) file = open_shard();
    if (!file) throw_system_error("cannot read " + shard.string(), errno);
    shards_.push_back(std::move(file));
  }
}

void SampleFiles::read(const Sample& sample, std::vector<std::byte>& bytes) const {
  const auto shard = static_cast<size_t>(sample.shard);
  MLBENCH_CHECK(shard < shards_.size() && sample.offset >= 0 && sample.length >= 0 && sample.length <= kMostImageBytes,
                "a sample of the index");
  struct stat status {};
  if (fstat(shards_[shard].get(), &status) != 0) {
    throw_system_error("cannot read " + index_.shards[shard].string(), errno);
  }
  const bool folder = S_ISDIR(status.st_mode);
  const std::string path = folder ? (index_.shards[shard] / sample.key).string() : index_.shards[shard].string();
  const FileDescriptor own = folder ? open_plain(shards_[shard].get(), sample.key, path) : FileDescriptor();
  const int file = folder ? own.get() : shards_[shard].get();
  if (folder && fstat(file, &status) == 0 && status.st_size > sample.length) {
    throw UserError(
        fmt::format("{}: {} bytes, by the index {}: make the index again", path, status.st_size, sample.length));
  }
  bytes.resize(static_cast<size_t>(sample.length));
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t got =
        pread(file, bytes.data() + done, bytes.size() - done, sample.offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_system_error("cannot read " + path, errno);
    if (got == 0) {
      throw UserError(fmt::format("{}: ends before byte {}, where '{}' ends by the index: make the index again", path,
                                  sample.offset + sample.length, printable(sample.key, 100)));
    }
    done += static_cast<size_t>(got);
  }
}

}  // namespace mlbench::image
