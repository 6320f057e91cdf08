#pragma once

// A file written piece by piece of which readers see the old or the new content, never a half.

#include <filesystem>
#include <string_view>

#include "mlbench/base/files.h"

namespace mlbench {

// Under a temporary name in the same folder until commit(), which flushes it to the disk and renames it. Without
// commit() the temporary file goes and nothing has changed. All failures are SystemErrors with path and reason.
class AtomicFile {
 public:
  explicit AtomicFile(std::filesystem::path path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::string_view bytes);
  void commit();

 private:
  std::filesystem::path path_, temporary_;
  FileDescriptor fd_;
};

}  // namespace mlbench
