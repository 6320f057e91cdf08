#pragma once

// The classes of characters that Moses' scripts use from Perl, computed by ICU. Internal to dataset/.

#include <string>
#include <string_view>

#include "mlbench/unicode/unicode.h"

namespace mlbench::dataset::text {

using unicode::append_utf8;
using unicode::code_points;
using unicode::is_number;  // \p{IsN}
using unicode::is_space;   // \s
using unicode::is_utf8;
using unicode::to_utf8;

// \p{IsAlpha}, \p{IsAlnum}, \p{IsLower}, \p{IsSc}. The first two also include the signs that join Indic letters.
bool is_alpha(char32_t c);
bool is_alnum(char32_t c);
bool is_lower(char32_t c);
bool is_currency(char32_t c);
// Whether the general category is L* or N*, the characters of which the subword dictionary of WMT17 makes words.
bool is_letter_or_number(char32_t c);
// Whether the character is of a script that is written without blanks.
bool is_cjk(char32_t c);

// The text without white space at both ends.
std::u32string_view stripped(std::u32string_view text);
std::string_view stripped_ascii(std::string_view text);
// Replaces each character of white space by a blank (U+0020).
void make_blanks(std::string& text);
// Calls `visit` with each word between blanks (U+0020 alone), of which there may be several in a row.
template <typename Visit>
void for_each_word(std::string_view text, Visit&& visit) {
  while (!text.empty()) {
    const size_t end = text.find(' ');
    if (end != 0) visit(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

}  // namespace mlbench::dataset::text
