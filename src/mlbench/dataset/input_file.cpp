#include "mlbench/dataset/input_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"

namespace mlbench::dataset {

// zlib and not libarchive, whose gzip filter (3.6) does not compare the checksum at the end.
struct InputFile::Stream {
  explicit Stream(gzFile handle) : file(handle) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { gzclose_r(file); }
  gzFile file;
};

InputFile::InputFile(const std::filesystem::path& path) : path_(path) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw IoError("cannot read " + path.string() + ": " + errno_text(errno));
  gzFile file = gzdopen(fd.get(), "rb");
  if (file == nullptr) throw IoError("cannot read " + path.string() + ": out of memory");
  fd.release();
  stream_ = std::make_unique<Stream>(file);
  gzbuffer(file, 1 << 18);
  if (path.extension() == ".gz" && gzdirect(file) != 0) {
    throw UserError(path.string() + ": no gzip data, which the name promises");
  }
}

InputFile::~InputFile() = default;

size_t InputFile::read(std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const auto wanted = static_cast<unsigned>(std::min<size_t>(out.size() - done, 1 << 30));
    const int count = gzread(stream_->file, out.data() + done, wanted);
    if (count < 0) {
      int code = Z_OK;
      std::string reason = gzerror(stream_->file, &code);
      if (code == Z_ERRNO) throw IoError("cannot read " + path_.string() + ": " + errno_text(errno));
      if (const size_t colon = reason.rfind(": "); colon != std::string::npos) reason.erase(0, colon + 2);
      throw UserError(
          fmt::format("{}: damaged gzip data after {} unpacked bytes ({})", path_.string(), position_, reason));
    }
    if (count == 0) {
      // A truncated stream reads as an ordinary end; only the error code tells.
      int code = Z_OK;
      gzerror(stream_->file, &code);
      if (code == Z_BUF_ERROR) {
        throw UserError(
            fmt::format("{}: truncated gzip data, ends after {} unpacked bytes", path_.string(), position_));
      }
      break;
    }
    done += static_cast<size_t>(count);
    position_ += count;
  }
  return done;
}

void InputFile::read_exactly(std::span<std::byte> out, const char* what) {
  const size_t count = read(out);
  if (count < out.size()) {
    throw UserError(
        fmt::format("{}: truncated, ends after {} of {} bytes of its {}", path_.string(), count, out.size(), what));
  }
}

void InputFile::expect_end() {
  std::array<std::byte, 1> more;
  const int64_t end = position_;
  if (read(more) != 0)
    throw UserError(fmt::format("{}: goes on after its last record, at byte {}", path_.string(), end));
}

}  // namespace mlbench::dataset
