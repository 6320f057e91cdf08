#include "mlbench/base/text.h"

namespace mlbench {

std::string trimmed(std::string_view text) {
  constexpr const char* kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(kSpace) - first + 1));
}

void fill_in(std::string& text, std::string_view word, const std::string& value) {
  for (size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += value.size()) {
    text.replace(at, word.size(), value);
  }
}

void fill_in(std::vector<std::string>& command, std::string_view word, const std::string& value) {
  for (std::string& one : command) fill_in(one, word, value);
}

}  // namespace mlbench
