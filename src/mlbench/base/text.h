#pragma once

// Small changes of text.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mlbench {

// Without the blanks, tabs and line breaks at its ends.
std::string trimmed(std::string_view text);

// What lies between the separators: one part more than there are of these, so "" is one empty part.
std::vector<std::string> split_at(std::string_view text, char separator);

// "1 worker", "3 workers".
std::string counted(int64_t count, std::string_view noun);

// The last line, without line breaks behind it.
std::string last_line(std::string_view text);

// A line break, a tab or another control character of ASCII.
bool has_control_character(std::string_view text);

// Every `word` within the text, or the command's words, becomes `value`.
void fill_in(std::string& text, std::string_view word, std::string_view value);
void fill_in(std::vector<std::string>& command, std::string_view word, std::string_view value);

// Every `path` within the text becomes `other`; not where another name goes on: "/runs/a" is not within "/runs/a-2".
void replace_path(std::string& text, std::string_view path, const std::string& other);

// The words of a line as a POSIX shell takes them apart: blanks part them, quotes of both kinds hold them together, a
// backslash keeps one character; nothing is expanded. UserError for a quote without its end.
std::vector<std::string> split_words(std::string_view line);

}  // namespace mlbench
