#include "mlbench/dataset/input_file.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "mlbench/base/files.h"
#include "mlbench/base/system_error.h"

namespace mlbench::dataset {

// Gives up to out.size() bytes, 0 at the end. Throws UserError naming `position` where packed data are damaged.
struct InputFile::Stream {
  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  virtual ~Stream() = default;
  virtual size_t read_some(std::span<std::byte> out, const std::filesystem::path& path, int64_t position) = 0;
};

// Reads plain files and gzip. It uses zlib since the gzip filter of libarchive 3.6 does not compare the checksum at the
// end.
struct InputFile::GzipStream final : Stream {
  GzipStream(FileDescriptor fd, const std::filesystem::path& path) : file(gzdopen(fd.get(), "rb")) {
    if (file == nullptr) throw IoError("cannot read " + path.string() + ": out of memory");
    fd.release();
    gzbuffer(file, 1 << 18);
    if (path.extension() == ".gz" && gzdirect(file) != 0) {
      gzclose_r(file);
      throw UserError(path.string() + ": no gzip data, which the name promises");
    }
  }
  ~GzipStream() override { gzclose_r(file); }

  size_t read_some(std::span<std::byte> out, const std::filesystem::path& path, int64_t position) override {
    const auto wanted = static_cast<unsigned>(std::min<size_t>(out.size(), 1 << 30));
    const int count = gzread(file, out.data(), wanted);
    if (count > 0) return static_cast<size_t>(count);
    int code = Z_OK;
    std::string reason = gzerror(file, &code);
    // A truncated stream reads as an ordinary end; only the error code tells.
    if (count == 0 && code != Z_BUF_ERROR) return 0;
    if (count == 0) {
      throw UserError(fmt::format("{}: truncated gzip data, ends after {} unpacked bytes", path.string(), position));
    }
    if (code == Z_ERRNO) throw_system_error("cannot read " + path.string(), errno);
    if (const size_t colon = reason.rfind(": "); colon != std::string::npos) reason.erase(0, colon + 2);
    throw UserError(fmt::format("{}: damaged gzip data after {} unpacked bytes ({})", path.string(), position, reason));
  }

  gzFile file;
};

struct InputFile::ArchiveStream final : Stream {
  ArchiveStream(FileDescriptor file, const std::filesystem::path& path)
      : fd(std::move(file)), reader(archive_read_new(), archive_read_free) {
    if (reader == nullptr) throw IoError("cannot read " + path.string() + ": out of memory");
    const bool bzip2 = path.extension() == ".bz2";
    name = bzip2 ? "bzip2" : "xz";
    if (bzip2) {
      archive_read_support_filter_bzip2(reader.get());
    } else {
      archive_read_support_filter_xz(reader.get());
    }
    archive_read_support_format_raw(reader.get());
    archive_entry* entry = nullptr;
    if (archive_read_open_fd(reader.get(), fd.get(), 1 << 18) != ARCHIVE_OK ||
        archive_read_next_header(reader.get(), &entry) != ARCHIVE_OK ||
        archive_filter_code(reader.get(), 0) != (bzip2 ? ARCHIVE_FILTER_BZIP2 : ARCHIVE_FILTER_XZ)) {
      const char* reason = archive_error_string(reader.get());
      throw UserError(fmt::format("{}: no {} data, which the name promises{}{}", path.string(), name,
                                  reason != nullptr ? ": " : "", reason != nullptr ? reason : ""));
    }
  }

  size_t read_some(std::span<std::byte> out, const std::filesystem::path& path, int64_t position) override {
    const la_ssize_t count = archive_read_data(reader.get(), out.data(), out.size());
    if (count >= 0) return static_cast<size_t>(count);
    const char* reason = archive_error_string(reader.get());
    throw UserError(fmt::format("{}: damaged or truncated {} data after {} unpacked bytes ({})", path.string(), name,
                                position, reason != nullptr ? reason : "no reason known"));
  }

  FileDescriptor fd;  // outlives `reader`
  std::unique_ptr<archive, decltype(&archive_read_free)> reader;
  const char* name = "";
};

bool is_packed(const std::filesystem::path& path) {
  return std::ranges::find(kPackedSuffixes, path.extension().string()) != std::end(kPackedSuffixes);
}

InputFile::InputFile(const std::filesystem::path& path) : path_(path) {
  FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) throw_system_error("cannot read " + path.string(), errno);
  if (is_packed(path) && path.extension() != ".gz") {
    stream_ = std::make_unique<ArchiveStream>(std::move(fd), path);
  } else {
    stream_ = std::make_unique<GzipStream>(std::move(fd), path);
  }
}

InputFile::~InputFile() = default;

size_t InputFile::read(std::span<std::byte> out) {
  size_t done = 0;
  while (done < out.size()) {
    const size_t count = stream_->read_some(out.subspan(done), path_, position_);
    if (count == 0) break;
    done += count;
    position_ += static_cast<int64_t>(count);
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

TextFile::TextFile(const std::filesystem::path& path, Origin origin) : file_(path) {
  if (origin == Origin::kOutside) blocks_.emplace(path.string());
}

size_t TextFile::read(std::span<char> out) {
  if (!blocks_) return file_.read(std::as_writable_bytes(out));
  size_t done = 0;
  // Reads a second time where removing the byte order mark left room.
  for (bool more = true; more && done < out.size();) {
    const std::span<char> rest = out.subspan(done);
    const std::string_view block(rest.data(), file_.read(std::as_writable_bytes(rest)));
    const std::string_view text = blocks_->take(block);
    more = text.size() < block.size();
    std::memmove(rest.data(), text.data(), text.size());
    done += text.size();
  }
  return done;
}

}  // namespace mlbench::dataset
