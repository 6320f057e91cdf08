#include "mlbench/comm/shm/segment.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/text.h"
#include "mlbench/base/to_number.h"

namespace mlbench::comm::shm_backend {

namespace {

constexpr const char* kFolder = "/dev/shm";  // where Linux shows the objects
constexpr std::string_view kPrefix = "mlbench-shm";
constexpr size_t kMaxRunBytes = 64;

std::string object_of(const std::string& name) { return "/" + name; }

[[noreturn]] void refuse(const char* action, const std::string& name) {
  throw CommError(fmt::format("cannot {} shared memory {}/{}: {}", action, kFolder, name, errno_text(errno)));
}

}  // namespace

Segment::Segment(FileDescriptor fd, size_t bytes, const std::string& name) : fd_(std::move(fd)), bytes_(bytes) {
  void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
  if (base == MAP_FAILED) refuse("map", name);
  data_ = static_cast<std::byte*>(base);
}

Segment Segment::create(const std::string& name, size_t bytes) {
  FileDescriptor fd(shm_open(object_of(name).c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
  if (!fd) refuse("make", name);
  try {
    if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) refuse("make", name);
    Segment segment(std::move(fd), bytes, name);
    segment.name_ = name;
    return segment;
  } catch (const CommError&) {
    shm_unlink(object_of(name).c_str());
    throw;
  }
}

Segment Segment::open(const std::string& name) {
  FileDescriptor fd(shm_open(object_of(name).c_str(), O_RDWR, 0));
  if (!fd) refuse("open", name);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0) refuse("inspect", name);
  if (info.st_uid != geteuid() || (info.st_mode & 077) != 0 || info.st_size <= 0) {
    throw CommError(fmt::format("shared memory {}/{} is not of this user alone", kFolder, name));
  }
  return Segment(std::move(fd), static_cast<size_t>(info.st_size), name);
}

Segment::Segment(Segment&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_),
      name_(std::exchange(other.name_, "")) {}

Segment::~Segment() {
  unlink();
  if (data_ != nullptr) munmap(data_, bytes_);
}

void Segment::reserve(size_t offset, size_t bytes) {
  int error = EINTR;
  while (error == EINTR) {
    error = posix_fallocate(fd_.get(), static_cast<off_t>(offset), static_cast<off_t>(bytes));
  }
  if (error == 0) return;
  throw CommError(
      fmt::format("no room for {} bytes of shared memory in {} ({}): free some, or make it larger (Docker: --shm-size)",
                  bytes, kFolder, errno_text(error)));
}

void Segment::unlink() noexcept {
  if (!name_.empty()) shm_unlink(object_of(name_).c_str());
  name_.clear();
}

std::string new_segment_name(const std::string& run) {
  std::string plain = run.substr(0, kMaxRunBytes);
  std::replace_if(
      plain.begin(), plain.end(), [](unsigned char c) { return c > 127 || (std::isalnum(c) == 0 && c != '-'); }, '_');
  const ProcessMark mark = own_mark();
  return fmt::format("{}.{}.{}.{}.{}.{}", kPrefix, mark.pid_namespace, mark.pid, mark.start_time, plain, random_hex(8));
}

std::optional<ProcessMark> maker_of(const std::string& name) {
  const std::vector<std::string> parts = split_at(name, '.');
  if (parts.size() != 6 || parts[0] != kPrefix) return std::nullopt;
  const auto pid_namespace = to_number<uint64_t>(parts[1]), start_time = to_number<uint64_t>(parts[3]);
  const auto pid = to_number<int64_t>(parts[2]);
  if (!pid_namespace || !pid || !start_time) return std::nullopt;
  return ProcessMark{.pid = *pid, .start_time = *start_time, .pid_namespace = *pid_namespace};
}

void collect_dead_segments() {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(kFolder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    const auto maker = maker_of(name);
    if (maker && has_ended(*maker)) shm_unlink(object_of(name).c_str());
  }
}

}  // namespace mlbench::comm::shm_backend
