#include "mlbench/base/text.h"

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/base/replace.h"

namespace mlbench {

std::string trimmed(std::string_view text) {
  constexpr const char* kSpace = " \t\r\n";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(kSpace) - first + 1));
}

std::vector<std::string> split_at(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t end = 0; (end = text.find(separator)) != std::string_view::npos; text.remove_prefix(end + 1)) {
    parts.emplace_back(text.substr(0, end));
  }
  parts.emplace_back(text);
  return parts;
}

std::string counted(int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

std::string last_line(std::string_view text) {
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text.substr(text.rfind('\n') + 1));
}

std::vector<std::string> split_words(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool begun = false;
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (quote == 0 && blank) {
      if (begun) words.push_back(std::move(word));
      word.clear();
      begun = false;
      continue;
    }
    begun = true;
    const bool escapes =
        c == '\\' && quote != '\'' && i + 1 < line.size() && (quote == 0 || line[i + 1] == '"' || line[i + 1] == '\\');
    if (escapes) {
      word += line[++i];
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (quote != 0 && c == quote) {
      quote = 0;
    } else {
      word += c;
    }
  }
  if (quote != 0) throw UserError("'" + std::string(line.substr(0, 80)) + "' has a quote without its end");
  if (begun) words.push_back(std::move(word));
  return words;
}

void fill_in(std::string& text, std::string_view word, std::string_view value) { replace_all(text, word, value); }

bool has_control_character(std::string_view text, std::string_view allowed) {
  return std::ranges::any_of(text, [&](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 || byte == 0x7f) && allowed.find(c) == std::string_view::npos;
  });
}

void replace_path(std::string& text, std::string_view path, const std::string& other) {
  constexpr std::string_view kBehind = "/:;,=\"' \t\n";
  std::string result;
  size_t copied = 0;
  for (size_t at = 0; (at = text.find(path, at)) != std::string::npos;) {
    const size_t behind = at + path.size();
    if (behind == text.size() || kBehind.find(text[behind]) != std::string_view::npos) {
      result.append(text, copied, at - copied).append(other);
      copied = behind;
    }
    at = behind;
  }
  if (copied > 0) text = result.append(text, copied);
}

void fill_in(std::vector<std::string>& command, std::string_view word, std::string_view value) {
  for (std::string& one : command) fill_in(one, word, value);
}

}  // namespace mlbench
