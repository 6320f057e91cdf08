#pragma once

// A file to be decoded, read from front to back and unpacked on the way (gzip, bzip2, xz). Internal to dataset/.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "mlbench/base/text_blocks.h"

namespace mlbench::dataset {

// The suffixes of packed files; any other name is a plain file.
inline constexpr std::string_view kPackedSuffixes[] = {".gz", ".bz2", ".xz"};
bool is_packed(const std::filesystem::path& path);

class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);  // throws IoError; UserError where its name misleads
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Fills as much of `out` as the file still has, and returns the number of bytes. Throws UserError (path, position,
  // reason) where packed data are damaged.
  size_t read(std::span<std::byte> out);
  // Fills all of `out`. Throws UserError where the file ends early, naming `what` was read, and how many bytes there
  // were and should be.
  void read_exactly(std::span<std::byte> out, const char* what);
  // Throws UserError where the file has more bytes.
  void expect_end();

 private:
  struct Stream;
  struct GzipStream;
  struct ArchiveStream;
  std::filesystem::path path_;
  std::unique_ptr<Stream> stream_;
  int64_t position_ = 0;  // bytes of unpacked content read so far
};

// A file of text, packed or plain. Text from outside passes through TextBlocks (base/text_blocks.h), which checks it;
// what this program wrote is given as it is.
class TextFile {
 public:
  enum class Origin { kOutside, kOwn };
  explicit TextFile(const std::filesystem::path& path, Origin origin = Origin::kOutside);

  const std::filesystem::path& path() const { return file_.path(); }
  // Fills as much of `out` (at least three bytes) as the text still has, and returns the number of bytes. Throws as
  // InputFile::read and TextBlocks::take do.
  size_t read(std::span<char> out);

 private:
  InputFile file_;
  std::optional<TextBlocks> blocks_;  // empty for Origin::kOwn
};

}  // namespace mlbench::dataset
