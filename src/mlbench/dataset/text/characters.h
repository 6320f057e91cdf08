#pragma once

// UTF-8 text as code points, with the classes that Moses' scripts have from Perl. By ICU. Internal to dataset/.

#include <string>
#include <string_view>

namespace mlbench::dataset::text {

// No UTF-8 in the strict sense: overlong forms, surrogates and what is cut off are none either.
bool is_utf8(std::string_view text);

// What is no UTF-8 becomes U+FFFD.
std::u32string code_points(std::string_view text);
void append_utf8(std::string& text, char32_t c);
std::string to_utf8(std::u32string_view text);

// \s: Unicode's White_Space and the separators U+001C to U+001F.
bool is_space(char32_t c);
// \p{IsAlpha}, \p{IsAlnum}, \p{IsLower}, \p{IsN}, \p{IsSc}. The first two hold the signs that join Indic letters, too.
bool is_alpha(char32_t c);
bool is_alnum(char32_t c);
bool is_lower(char32_t c);
bool is_number(char32_t c);
bool is_currency(char32_t c);
// General categories L* and N*: what the subword dictionary of WMT17 holds for parts of words.
bool is_letter_or_number(char32_t c);
// A script that is written without blanks.
bool is_cjk(char32_t c);

// White space around it taken away.
std::u32string_view stripped(std::u32string_view text);
std::string_view stripped_ascii(std::string_view text);
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
