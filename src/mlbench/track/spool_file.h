#pragma once

// A file to which one writer appends, and which readers may read at any moment.

#include <cstddef>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "mlbench/base/files.h"

namespace mlbench::track {

// After the first error, the file ends with the last piece that was written whole, and takes nothing more.
class SpoolFile {
 public:
  // Throws IoError, also when the file exists: a segment has its files to itself. Makes the process ignore SIGXFSZ, so
  // that a file-size limit is an error like a full disk.
  explicit SpoolFile(const std::filesystem::path& path);

  // Writes the header, and syncs the folder so that it keeps the file. Throws IoError.
  void begin(const std::string& header);
  // Appends pieces that end at the offsets `ends` of `bytes`, each whole or not at all. Returns the first error, an
  // IoError.
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
