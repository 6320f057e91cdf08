#pragma once

// Small changes of text.

#include <string>
#include <string_view>
#include <vector>

namespace mlbench {

// Without the blanks, tabs and line breaks at its ends.
std::string trimmed(std::string_view text);

// Every `word` within the text, or the command's words, becomes `value`.
void fill_in(std::string& text, std::string_view word, const std::string& value);
void fill_in(std::vector<std::string>& command, std::string_view word, const std::string& value);

}  // namespace mlbench
