#pragma once

// A file that one writer appends to, for readers at any moment.

#include <cstddef>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "mlbench/base/files.h"

namespace mlbench::track {

// After the first error the file ends with the last piece that was written whole, and takes nothing more.
class SpoolFile {
 public:
  // IoError; also when the file exists: a segment has its files to itself. Makes the process ignore SIGXFSZ, so that a
  // file-size limit is an error like a full disk.
  explicit SpoolFile(const std::filesystem::path& path);

  // Writes the header, and has the folder keep the file. IoError.
  void begin(const std::string& header);
  // Appends pieces that end at `ends`, each whole or not at all; returns the first error, an IoError.
  std::exception_ptr append(std::string_view bytes, std::span<const size_t> ends);
  std::exception_ptr sync();

 private:
  void keep_whole(std::span<const size_t> ends);

  std::filesystem::path path_;
  FileDescriptor fd_;
  size_t size_ = 0;
  bool broken_ = false;
};

}  // namespace mlbench::track
