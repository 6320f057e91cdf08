#pragma once

// Text from outside: all of it is UTF-8. The byte order mark of UTF-8 may stand at the beginning, and is no part of it.

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "mlbench/base/input.h"

namespace mlbench {

// A text that comes block by block.
class TextBlocks {
 public:
  // `subject`: of errors, the file's path.
  explicit TextBlocks(std::string subject) : subject_(std::move(subject)) {}

  // The next block, the first one (of three bytes at least, where the text has so many) without the mark. UserError for
  // a mark of UTF-16 or UTF-32 and for a zero byte, which UTF-16 without a mark has. Other bytes that are no UTF-8 are
  // the caller's to see. `left_out`: bytes of the text between this block and the next, as the end of a line.
  std::string_view take(std::string_view block, size_t left_out = 0);

 private:
  const std::string subject_;
  size_t taken_ = 0;  // bytes before the next block
};

// As read_file() of input.h and TextBlocks.
std::string read_text_file(const std::filesystem::path& path, const Input& input);

}  // namespace mlbench
