#pragma once

// A file to be decoded, read front to back; gzip is unpacked on the way. Internal to dataset/.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

namespace mlbench::dataset {

class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);  // IoError; UserError when FILE.gz is not gzip
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
  std::filesystem::path path_;
  std::unique_ptr<Stream> stream_;
  int64_t position_ = 0;  // in the unpacked content
};

}  // namespace mlbench::dataset
