#pragma once

// Characters with the classes that Moses' scripts have from Perl. By ICU. Internal to dataset/.

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

// \p{IsAlpha}, \p{IsAlnum}, \p{IsLower}, \p{IsSc}. The first two hold the signs that join Indic letters, too.
bool is_alpha(char32_t c);
bool is_alnum(char32_t c);
bool is_lower(char32_t c);
bool is_currency(char32_t c);
// General categories L* and N*: what the subword dictionary of WMT17 holds for parts of words.
bool is_letter_or_number(char32_t c);
// A script that is written without blanks.
bool is_cjk(char32_t c);

// White space around it taken away.
std::u32string_view stripped(std::u32string_view text);
std::string_view stripped_ascii(std::string_view text);
// White space becomes blanks (U+0020), character by character.
void make_blanks(std::string& text);
// Words between single or several blanks (U+0020 alone).
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
