#pragma once

// Text from outside is UTF-8. A byte order mark of UTF-8 may stand at its beginning; the mark is not part of the text.

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "mlbench/base/input.h"

namespace mlbench {

// Checks a text that comes block by block.
class TextBlocks {
 public:
  // `subject` is what errors name: the file's path.
  explicit TextBlocks(std::string subject) : subject_(std::move(subject)) {}

  // Returns the next block; the first block is returned without the mark. Precondition: the first block has at least
  // three bytes if the text has so many. Throws UserError for a mark of UTF-16 or UTF-32 and for a zero byte, which
  // UTF-16 without a mark has. Callers themselves check for other bytes that are not UTF-8. `left_out` counts bytes of
  // the text between this block and the next, such as the end of a line.
  std::string_view take(std::string_view block, size_t left_out = 0);

 private:
  const std::string subject_;
  size_t taken_ = 0;  // bytes before the next block
};

// Reads a whole file as read_file() of input.h does, and checks it as TextBlocks does.
std::string read_text_file(const std::filesystem::path& path, const Input& input);

}  // namespace mlbench
