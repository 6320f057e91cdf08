#pragma once

// Numbers of a binary file, front to back. Internal to dataset/.

#include <algorithm>
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
  // UserError when the file ends early; `what` is for its text.
  int64_t integer(const char* what) {
    int64_t value = 0;
    file_.read_exactly(std::as_writable_bytes(std::span(&value, 1)), what);
    return value;
  }
  template <typename T>
  void fill(std::span<T> values, const char* what) {
    file_.read_exactly(std::as_writable_bytes(values), what);
  }
  // A vector of so many, which grows with what the file has: a count that is made up cannot take all memory.
  std::vector<int64_t> integers(int64_t count, const char* what) {
    constexpr int64_t kStep = 1 << 20;
    std::vector<int64_t> values;
    for (int64_t done = 0; done < count; done += kStep) {
      const auto part = static_cast<size_t>(std::min(kStep, count - done));
      values.resize(values.size() + part);
      fill(std::span(values).last(part), what);
    }
    return values;
  }

 private:
  InputFile file_;
};

}  // namespace mlbench::dataset::text
