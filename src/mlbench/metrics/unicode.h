#pragma once

// UTF-8 text as code points, with the character classes and the lower case that sacreBLEU has from Python. By ICU.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlbench::metrics {

// Where the first byte stands that is no UTF-8 in the strict sense (overlong forms and surrogates are none either).
std::optional<size_t> first_bad_byte(std::string_view text);

// What is no UTF-8 becomes U+FFFD.
std::u32string code_points(std::string_view text);
std::string to_utf8(std::u32string_view text);

// Python's str.lower(): Unicode's full mapping, of no language. Capital sigma ends a word as final sigma.
std::string lower_case(std::string_view text);

// Python's str.isspace(): Unicode's White_Space and the separators U+001C to U+001F.
bool is_space(char32_t c);
// Unicode's general categories P*, S* and N*.
bool is_punctuation(char32_t c);
bool is_symbol(char32_t c);
bool is_number(char32_t c);

// Python's str.rstrip() and str.split(): views into `text`.
std::u32string_view without_trailing_space(std::u32string_view text);
std::vector<std::u32string_view> words(std::u32string_view text);

}  // namespace mlbench::metrics
