#pragma once

// Numbers of a binary file, read from front to back. Memory does not grow with the counts that the file names. Internal
// to dataset/.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "mlbench/dataset/input_file.h"

namespace mlbench::dataset::text {

class BinaryInput {
 public:
  explicit BinaryInput(const std::filesystem::path& path) : file_(path) {}

  const std::filesystem::path& path() const { return file_.path(); }
  // Reads an int64. Throws UserError where the file ends early; its text names `what` was read.
  int64_t integer(const char* what) {
    int64_t value = 0;
    file_.read_exactly(std::as_writable_bytes(std::span(&value, 1)), what);
    return value;
  }
  template <typename T>
  void fill(std::span<T> values, const char* what) {
    file_.read_exactly(std::as_writable_bytes(values), what);
  }
  // Skips `bytes` bytes.
  void skip(int64_t bytes, const char* what) {
    constexpr int64_t kStep = 1 << 20;
    std::vector<std::byte> left(static_cast<size_t>(std::min(kStep, bytes)));
    for (int64_t done = 0; done < bytes; done += kStep) {
      fill(std::span(left).first(static_cast<size_t>(std::min(kStep, bytes - done))), what);
    }
  }

 private:
  InputFile file_;
};

}  // namespace mlbench::dataset::text
