#include "mlbench/tfrecord/records.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <isa-l/crc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>

#include "mlbench/base/errors.h"
#include "mlbench/base/system_error.h"

namespace mlbench::tfrecord {

namespace {

static_assert(std::endian::native == std::endian::little);

// The calls of ISA-L take their lengths as int.
constexpr size_t kMostAtOnce = size_t{1} << 30;

template <typename T>
std::string as_bytes(T value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

template <typename T>
T number_in(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

constexpr size_t kChecksumBytes = sizeof(uint32_t), kLengthBytes = sizeof(uint64_t);

}  // namespace

uint32_t masked_checksum(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  while (!bytes.empty()) {
    const std::string_view some = bytes.substr(0, kMostAtOnce);
    // It does not write to them.
    auto* const data = reinterpret_cast<unsigned char*>(const_cast<char*>(some.data()));
    crc = crc32_iscsi(data, static_cast<int>(some.size()), crc);
    bytes.remove_prefix(some.size());
  }
  return std::rotr(~crc, 15) + 0xa282ead8U;
}

void append_record(std::string& file, std::string_view bytes) {
  const std::string length = as_bytes(uint64_t{bytes.size()});
  file += length;
  file += as_bytes(masked_checksum(length));
  file += bytes;
  file += as_bytes(masked_checksum(bytes));
}

RecordReader::RecordReader(const std::filesystem::path& path, int64_t most_bytes)
    : path_(path), most_bytes_(most_bytes), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (!file_) throw_system_error("cannot read " + path.string(), errno);
  struct stat status {};
  if (fstat(file_.get(), &status) != 0) throw_system_error("cannot read " + path.string(), errno);
  if (!S_ISREG(status.st_mode)) throw UserError(path.string() + ": no plain file");
  size_ = status.st_size;
  posix_fadvise(file_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
}

std::string RecordReader::read(int64_t count) {
  std::string bytes(static_cast<size_t>(count), '\0');
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t got = pread(file_.get(), bytes.data() + done, bytes.size() - done, position_);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_system_error("cannot read " + path_.string(), errno);
    if (got == 0) throw UserError(fmt::format("{}: became shorter while it was read", path_.string()));
    done += static_cast<size_t>(got);
    position_ += got;
  }
  return bytes;
}

std::optional<RecordReader::Record> RecordReader::next() {
  if (position_ == size_) return std::nullopt;
  const int64_t begin = position_;
  const auto refuse = [&](const std::string& reason) {
    throw UserError(fmt::format("{}: record at byte {}: {}", path_.string(), begin, reason));
  };
  if (size_ - position_ < static_cast<int64_t>(kLengthBytes + kChecksumBytes)) refuse("the file ends in its length");
  const std::string head = read(kLengthBytes + kChecksumBytes);
  const std::string_view length_bytes = std::string_view(head).substr(0, kLengthBytes);
  if (number_in<uint32_t>(std::string_view(head).substr(kLengthBytes)) != masked_checksum(length_bytes)) {
    refuse("the checksum of its length is wrong: no TFRecord file, or a damaged one");
  }
  const auto length = number_in<uint64_t>(length_bytes);
  if (length > static_cast<uint64_t>(most_bytes_)) {
    refuse(fmt::format("its length is {} bytes, at most {} are read", length, most_bytes_));
  }
  const auto count = static_cast<int64_t>(length);
  if (size_ - position_ < count + static_cast<int64_t>(kChecksumBytes)) {
    refuse(fmt::format("its length is {} bytes, but the file ends {} bytes behind it", count, size_ - position_));
  }
  Record record{position_, read(count)};
  if (number_in<uint32_t>(read(kChecksumBytes)) !=
      checked_.measure(count, [&] { return masked_checksum(record.bytes); })) {
    refuse("the checksum of its bytes is wrong");
  }
  return record;
}

}  // namespace mlbench::tfrecord
