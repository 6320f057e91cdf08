
#include <algorithm>
#include <unordered_set>

#include "mlbench/base/choices.h"
#include "mlbench/dataset/text/characters.h"
#include "mlbench/dataset/text/moses.h"
#include "mlbench/dataset/text/nonbreaking_prefixes.h"

namespace mlbench::dataset::text {

namespace {

// Stands for each of several dots in a row until the end: no text holds this character, and no rule matches it.
constexpr char32_t kOneOfManyDots = 0x110000;

// "\s+" to " ", then [\000-\037] to "".
std::u32string without_junk(std::u32string_view text) {
  std::u32string result;
  result.reserve(text.size());
  bool in_space = false;
  for (const char32_t c : text) {
    const bool space = is_space(c);
    if (space && !in_space) result += U' ';
    if (!space && c >= 0x20) result += c;
    in_space = space;
  }
  return result;
}

// ([^\p{IsAlnum}\s\.'`,\-]) to " $1 "
std::u32string pad_others(std::u32string_view text) {
  std::u32string result;
  result.reserve(text.size() + 16);
  for (const char32_t c : text) {
    const bool kept = c == U' ' || c == U'.' || c == U'\'' || c == U'`' || c == U',' || c == U'-' || is_alnum(c);
    if (kept) {
      result += c;
    } else {
      result += {U' ', c, U' '};
    }
  }
  return result;
}

// ([\p{IsAlnum}])\-(?=[\p{IsAlnum}]) to "$1 @-@ "
std::u32string split_hyphens(std::u32string_view text) {
  std::u32string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool between = i > 0 && i + 1 < text.size() && is_alnum(text[i - 1]) && is_alnum(text[i + 1]);
    if (text[i] == U'-' && between) {
      result += U" @-@ ";
    } else {
      result += text[i];
    }
  }
  return result;
}

// Sets two or more dots in a row apart from the rest, as one token.
std::u32string set_multidots_apart(std::u32string_view text) {
  std::u32string result;
  result.reserve(text.size() + 8);
  for (size_t i = 0; i < text.size();) {
    size_t end = i;
    while (end < text.size() && text[end] == U'.') ++end;
    if (end - i < 2) {
      result += text[i++];
      continue;
    }
    result += U' ';
    result.append(end - i, kOneOfManyDots);
    if (end < text.size()) result += U' ';
    i = end;
  }
  return result;
}

// The three functions below work as a substitution of all matches does: from left to right, each match beginning where
// the last one ended.

// ($before)($mark) to "$1 $mark "
template <typename Before>
std::u32string pad_behind(std::u32string_view text, char32_t mark, const Before& before) {
  std::u32string result;
  result.reserve(text.size() + 8);
  for (size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (i + 1 < text.size() && text[i + 1] == mark && before(text[i])) {
      result += {U' ', mark, U' '};
      ++i;
    }
  }
  return result;
}

// ($mark)($after) to " $mark $2"
template <typename After>
std::u32string pad_before(std::u32string_view text, char32_t mark, const After& after) {
  std::u32string result;
  result.reserve(text.size() + 8);
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == mark && i + 1 < text.size() && after(text[i + 1])) {
      result += {U' ', mark, U' ', text[i + 1]};
      ++i;
    } else {
      result += text[i];
    }
  }
  return result;
}

// ($before)'($after) to "$1$replacement$2"
template <typename Before, typename After>
std::u32string replace_apostrophe(std::u32string_view text, const Before& before, const After& after,
                                  std::u32string_view replacement) {
  std::u32string result;
  result.reserve(text.size() + 8);
  for (size_t i = 0; i < text.size(); ++i) {
    result += text[i];
    if (i + 2 < text.size() && text[i + 1] == U'\'' && before(text[i]) && after(text[i + 2])) {
      result += replacement;
      result += text[i + 2];
      i += 2;
    }
  }
  return result;
}

// Sets commas apart, except within numbers.
std::u32string split_commas(std::u32string text) {
  const auto no_number = [](char32_t c) { return !is_number(c); };
  text = pad_behind(text, U',', no_number);
  text = pad_before(text, U',', no_number);
  if (text.size() >= 2 && text.back() == U',' && is_number(text[text.size() - 2])) {
    text.pop_back();
    text += U" , ";
  }
  return text;
}

std::u32string split_english_apostrophes(std::u32string text) {
  if (text.find(U'\'') == std::u32string::npos) return text;
  const auto no_alpha = [](char32_t c) { return !is_alpha(c); };
  const auto neither = [](char32_t c) { return !is_alpha(c) && !is_number(c); };
  const auto letter_s = [](char32_t c) { return c == U's'; };
  text = replace_apostrophe(text, no_alpha, no_alpha, U" ' ");
  text = replace_apostrophe(text, neither, is_alpha, U" ' ");
  text = replace_apostrophe(text, is_alpha, no_alpha, U" ' ");
  text = replace_apostrophe(text, is_alpha, is_alpha, U" '");
  return replace_apostrophe(text, is_number, letter_s, U" '");
}

std::u32string pad_apostrophes(std::u32string_view text) {
  std::u32string result;
  result.reserve(text.size() + 8);
  for (const char32_t c : text) {
    if (c == U'\'') {
      result += U" ' ";
    } else {
      result += c;
    }
  }
  return result;
}

void append_escaped(std::string& text, char32_t c) {
  switch (c) {
    case U'&':
      text += "&amp;";
      break;
    case U'|':
      text += "&#124;";
      break;
    case U'<':
      text += "&lt;";
      break;
    case U'>':
      text += "&gt;";
      break;
    case U'\'':
      text += "&apos;";
      break;
    case U'"':
      text += "&quot;";
      break;
    case U'[':
      text += "&#91;";
      break;
    case U']':
      text += "&#93;";
      break;
    default:
      append_utf8(text, c);
      break;
  }
}

bool is_digit(char32_t c) { return c >= U'0' && c <= U'9'; }

}  // namespace

std::vector<std::string> moses_languages() { return {"en", "de"}; }

struct MosesTokenizer::Language {
  bool english = false;
  std::unordered_set<std::u32string> always, before_numbers;

  explicit Language(std::string_view name) : english(name == "en") {
    check_choice("language of a tokeniser", name, moses_languages());
    const NonbreakingPrefixes& prefixes = english ? kEnglishPrefixes : kGermanPrefixes;
    for_each_word(prefixes.always, [&](std::string_view word) { always.insert(code_points(word)); });
    for_each_word(prefixes.before_numbers, [&](std::string_view word) { before_numbers.insert(code_points(word)); });
  }

  // Whether the full stop behind words[i] belongs to the word; `prefix` is the word without the full stop.
  bool keeps_full_stop(const std::vector<std::u32string_view>& words, size_t i, std::u32string_view prefix) const {
    const std::u32string key(prefix);
    if (prefix.find(U'.') != std::u32string_view::npos && std::ranges::any_of(prefix, is_alpha)) return true;
    if (always.contains(key)) return true;
    if (i + 1 == words.size()) return false;
    return is_lower(words[i + 1].front()) || (before_numbers.contains(key) && is_digit(words[i + 1].front()));
  }

  std::u32string split_full_stops(std::u32string_view text) const {
    const auto words = unicode::words(text);
    std::u32string result;
    result.reserve(text.size() + 8);
    for (size_t i = 0; i < words.size(); ++i) {
      if (i > 0) result += U' ';
      const std::u32string_view word = words[i];
      if (word.size() < 2 || word.back() != U'.') {
        result += word;
        continue;
      }
      const std::u32string_view prefix = word.substr(0, word.size() - 1);
      const bool kept = keeps_full_stop(words, i, prefix);
      result += kept ? word : prefix;
      if (!kept) result += U" .";
    }
    return result;
  }
};

MosesTokenizer::MosesTokenizer(std::string_view language) : language_(std::make_unique<const Language>(language)) {}
MosesTokenizer::~MosesTokenizer() = default;
MosesTokenizer::MosesTokenizer(MosesTokenizer&&) noexcept = default;
MosesTokenizer& MosesTokenizer::operator=(MosesTokenizer&&) noexcept = default;

std::string MosesTokenizer::tokenize(std::string_view sentence, const TokenizeOptions& options) const {
  std::u32string text = without_junk(code_points(sentence));
  text = pad_others(stripped(text));
  if (options.split_hyphens) text = split_hyphens(text);
  text = set_multidots_apart(text);
  text = split_commas(std::move(text));
  text = language_->english ? split_english_apostrophes(std::move(text)) : pad_apostrophes(text);
  text = language_->split_full_stops(text);
  if (text.ends_with(U".'")) text.replace(text.size() - 2, 2, U" . '");

  std::string result;
  result.reserve(sentence.size() + 32);
  for (const std::u32string_view word : unicode::words(text)) {
    if (!result.empty()) result += ' ';
    for (char32_t c : word) {
      if (c == kOneOfManyDots) c = U'.';
      if (options.escape) {
        append_escaped(result, c);
      } else {
        append_utf8(result, c);
      }
    }
  }
  return result;
}

}  // namespace mlbench::dataset::text
