#include "mlbench/base/text_blocks.h"

#include <fmt/format.h>

#include "mlbench/base/errors.h"

namespace mlbench {

std::string_view TextBlocks::take(std::string_view block, size_t left_out) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (taken_ == 0 && (block.starts_with("\xFF\xFE") || block.starts_with("\xFE\xFF"))) {
    throw UserError(fmt::format(
        "{} is text in UTF-16 or UTF-32; expected UTF-8, which iconv -f utf-16 -t utf-8 makes of it", subject_));
  }
  if (const size_t zero = block.find('\0'); zero != std::string_view::npos) {
    throw UserError(
        fmt::format("{}: byte {} is zero; expected text in UTF-8, which iconv -f utf-16le -t utf-8 makes of UTF-16",
                    subject_, taken_ + zero + 1));
  }
  const bool marked = taken_ == 0 && block.starts_with(kMark);
  taken_ += block.size() + left_out;
  if (marked) block.remove_prefix(kMark.size());
  return block;
}

std::string read_text_file(const std::filesystem::path& path, const Input& input) {
  const std::string content = read_file(path, input);
  return std::string(TextBlocks(path.string()).take(content));
}

}  // namespace mlbench
