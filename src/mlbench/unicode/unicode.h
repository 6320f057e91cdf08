#pragma once

// UTF-8 text as code points, with the character classes, the lower case and the words that Python has (by ICU).

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlbench::unicode {

// The offset of the first byte that is not UTF-8 in the strict sense, which excludes overlong forms and surrogates;
// empty where there is none.
std::optional<size_t> first_bad_byte(std::string_view text);
inline bool is_utf8(std::string_view text) { return !first_bad_byte(text); }

// The code points of the text; bytes that are not UTF-8 become U+FFFD.
std::u32string code_points(std::string_view text);
void append_utf8(std::string& text, char32_t c);
std::string to_utf8(std::u32string_view text);

// Python's str.lower(): Unicode's full mapping, independent of language. A capital sigma at the end of a word becomes a
// final sigma.
std::string lower_case(std::string_view text);

// Python's str.isspace(): Unicode's White_Space and the separators U+001C to U+001F.
bool is_space(char32_t c);
// The Unicode general categories P*, S* and N*.
bool is_punctuation(char32_t c);
bool is_symbol(char32_t c);
bool is_number(char32_t c);

// Python's str.rstrip() and str.split(): views into `text`.
std::u32string_view without_trailing_space(std::u32string_view text);
std::vector<std::u32string_view> words(std::u32string_view text);

}  // namespace mlbench::unicode
