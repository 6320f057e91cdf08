#include "mlbench/dataset/text/characters.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace mlbench::dataset::text {

namespace {

UChar32 to_icu(char32_t c) { return static_cast<UChar32>(c); }

// Whether `c` is a virama or nukta: Perl's classes lack these, and without them words of Indic scripts fall apart.
bool joins_letters(char32_t c) {
  constexpr uint8_t kNukta = 7, kVirama = 9;
  if (c < 0x900) return false;
  const uint8_t combining = u_getCombiningClass(to_icu(c));
  return combining == kNukta || combining == kVirama;
}

}  // namespace

bool is_alpha(char32_t c) {
  if (c < 0x80) return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  return u_isUAlphabetic(to_icu(c)) != 0 || joins_letters(c);
}

bool is_alnum(char32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || is_alpha(c);
  return is_alpha(c) || u_charType(to_icu(c)) == U_DECIMAL_DIGIT_NUMBER;
}

bool is_lower(char32_t c) { return u_isULowercase(to_icu(c)) != 0; }
bool is_currency(char32_t c) { return u_charType(to_icu(c)) == U_CURRENCY_SYMBOL; }
bool is_letter_or_number(char32_t c) { return (U_GET_GC_MASK(to_icu(c)) & (U_GC_L_MASK | U_GC_N_MASK)) != 0; }

bool is_cjk(char32_t c) {
  struct Range {
    char32_t first, last;
  };
  static constexpr std::array kRanges = {
      Range{0x1100, 0x11FF},   Range{0x2E80, 0xA4CF},   Range{0xA840, 0xA87F},   Range{0xAC00, 0xD7AF},
      Range{0xF900, 0xFAFF},   Range{0xFE30, 0xFE4F},   Range{0xFF65, 0xFFDC},   Range{0x17000, 0x18AFF},
      Range{0x1B000, 0x1B12F}, Range{0x1B170, 0x1B2FF}, Range{0x20000, 0x2FFFF},
  };
  return std::ranges::any_of(kRanges, [&](const Range& range) { return c >= range.first && c <= range.last; });
}

std::u32string_view stripped(std::u32string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  return unicode::without_trailing_space(text);
}

std::string_view stripped_ascii(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

void make_blanks(std::string& text) {
  // White space beyond ASCII begins with one of these bytes; most text has none of them.
  const bool beyond_ascii = text.find_first_of("\xC2\xE1\xE2\xE3") != std::string::npos;
  if (!beyond_ascii) {
    std::ranges::replace_if(
        text, [](unsigned char c) { return c < 0x80 && is_space(c); }, ' ');
    return;
  }
  std::u32string characters = code_points(text);
  std::ranges::replace_if(characters, is_space, U' ');
  text = to_utf8(characters);
}

}  // namespace mlbench::dataset::text
