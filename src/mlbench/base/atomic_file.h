#pragma once

// A file that is written piece by piece. Readers see its old or its new content, never half of it.

#include <filesystem>
#include <string_view>

#include "mlbench/base/files.h"

namespace mlbench {

// The content goes to a temporary name in the same folder until commit(), which flushes it to the disk and renames it.
// Without commit() the destructor removes the temporary file, and nothing has changed. Failures are SystemErrors with
// path and reason.
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
