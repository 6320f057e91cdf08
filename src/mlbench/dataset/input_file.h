#pragma once

// A file to be decoded, read front to back; what is packed (gzip, bzip2, xz) is unpacked on the way. Internal to
// dataset/.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "mlbench/base/text_blocks.h"

namespace mlbench::dataset {

// How a packed file's name ends; any other name is a plain file.
inline constexpr std::string_view kPackedSuffixes[] = {".gz", ".bz2", ".xz"};
bool is_packed(const std::filesystem::path& path);

class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);  // IoError; UserError when it is not what its name says
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Fills as much of `out` as the file still has. UserError (path, position, reason) when packed data are damaged.
  size_t read(std::span<std::byte> out);
  // UserError when the file ends early: says what of, how much there is and how much was expected.
  void read_exactly(std::span<std::byte> out, const char* what);
  // UserError when anything follows.
  void expect_end();

 private:
  struct Stream;
  struct GzipStream;
  struct ArchiveStream;
  std::filesystem::path path_;
  std::unique_ptr<Stream> stream_;
  int64_t position_ = 0;  // in the unpacked content
};

// A file of text, whatever it is packed with. From outside it is as TextBlocks has it; what this program wrote is given
// as it is.
class TextFile {
 public:
  enum class Origin { kOutside, kOwn };
  explicit TextFile(const std::filesystem::path& path, Origin origin = Origin::kOutside);

  const std::filesystem::path& path() const { return file_.path(); }
  // Fills as much of `out` (three bytes at least) as the text still has. As InputFile::read and TextBlocks.
  size_t read(std::span<char> out);

 private:
  InputFile file_;
  std::optional<TextBlocks> blocks_;  // empty: our own
};

}  // namespace mlbench::dataset
