#include "mlbench/unicode/unicode.h"

#include <unicode/bytestream.h>
#include <unicode/casemap.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <cstdint>

#include "mlbench/base/errors.h"

namespace mlbench::unicode {

namespace {

// ICU counts in 32 bits.
int32_t icu_size(std::string_view text) {
  MLBENCH_CHECK(text.size() < (size_t{1} << 30), "a text of a GiB");
  return static_cast<int32_t>(text.size());
}

bool in_category(char32_t c, uint32_t mask) { return (U_GET_GC_MASK(static_cast<UChar32>(c)) & mask) != 0; }

}  // namespace

std::optional<size_t> first_bad_byte(std::string_view text) {
  const int32_t size = icu_size(text);
  for (int32_t at = 0; at < size;) {
    const int32_t start = at;
    UChar32 c = 0;
    U8_NEXT(text.data(), at, size, c);
    if (c < 0) return static_cast<size_t>(start);
  }
  return std::nullopt;
}

std::u32string code_points(std::string_view text) {
  std::u32string result;
  result.reserve(text.size());
  const int32_t size = icu_size(text);
  for (int32_t at = 0; at < size;) {
    UChar32 c = 0;
    U8_NEXT_OR_FFFD(text.data(), at, size, c);
    result += static_cast<char32_t>(c);
  }
  return result;
}

void append_utf8(std::string& text, char32_t c) {
  uint8_t bytes[U8_MAX_LENGTH];
  int32_t size = 0;
  U8_APPEND_UNSAFE(bytes, size, static_cast<UChar32>(c));
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
}

std::string to_utf8(std::u32string_view text) {
  std::string result;
  result.reserve(text.size());
  for (const char32_t c : text) append_utf8(result, c);
  return result;
}

std::string lower_case(std::string_view text) {
  std::string result;
  icu::StringByteSink<std::string> sink(&result, icu_size(text));
  UErrorCode status = U_ZERO_ERROR;
  icu::CaseMap::utf8ToLower("", 0, icu::StringPiece(text.data(), icu_size(text)), sink, nullptr, status);
  MLBENCH_CHECK(U_SUCCESS(status), u_errorName(status));
  return result;
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F);
  return u_isUWhiteSpace(static_cast<UChar32>(c)) != 0;
}

bool is_punctuation(char32_t c) { return in_category(c, U_GC_P_MASK); }
bool is_symbol(char32_t c) { return in_category(c, U_GC_S_MASK); }
bool is_number(char32_t c) { return in_category(c, U_GC_N_MASK); }

std::u32string_view without_trailing_space(std::u32string_view text) {
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<std::u32string_view> words(std::u32string_view text) {
  std::vector<std::u32string_view> result;
  for (auto begin = text.begin(); begin != text.end();) {
    begin = std::find_if_not(begin, text.end(), is_space);
    const auto end = std::find_if(begin, text.end(), is_space);
    if (begin != end) result.emplace_back(begin, end);
    begin = end;
  }
  return result;
}

}  // namespace mlbench::unicode
