#pragma once

// Small changes of text.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mlbench {

// The text without the blanks, tabs and line breaks at its ends.
std::string trimmed(std::string_view text);

// The parts between the separators. There is one part more than there are separators, so "" has one empty part.
std::vector<std::string> split_at(std::string_view text, char separator);

// "1 worker", "3 workers".
std::string counted(int64_t count, std::string_view noun);

// The last line; line breaks behind that line are ignored.
std::string last_line(std::string_view text);

// Whether the text has a line break, a tab or another control character of ASCII, which is none of `allowed`.
bool has_control_character(std::string_view text, std::string_view allowed = {});

// Replaces every `word` within the text, or within each of the command's words, by `value`.
void fill_in(std::string& text, std::string_view word, std::string_view value);
void fill_in(std::vector<std::string>& command, std::string_view word, std::string_view value);

// Replaces every `path` within the text by `other`, but not within a longer name: "/runs/a" is not in "/runs/a-2".
void replace_path(std::string& text, std::string_view path, const std::string& other);

// The words of a line as a POSIX shell splits them: blanks separate words, quotes of both kinds hold a word together,
// and a backslash keeps the next character. Nothing is expanded. Throws UserError for a quote without its end.
std::vector<std::string> split_words(std::string_view line);

}  // namespace mlbench
