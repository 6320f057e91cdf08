#include "mlbench/metrics/tokenizer.h"

#include <array>

#include "mlbench/base/choices.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/replace.h"
#include "mlbench/unicode/unicode.h"

namespace mlbench::metrics {

namespace {

struct TokenizerRow {
  const char* name;
  Tokenizer tokenizer;
};
constexpr std::array<TokenizerRow, 3> kTokenizers = {
    {{"13a", Tokenizer::k13a}, {"intl", Tokenizer::kIntl}, {"none", Tokenizer::kNone}}};

// ---- the regular expressions of the two scorers ---------------------------------------------------------------------

// s/(X)/ $1 /g
template <typename Is>
std::u32string set_apart(std::u32string_view text, Is is) {
  std::u32string result;
  for (const char32_t c : text) {
    if (is(c)) {
      result += {U' ', c, U' '};
    } else {
      result += c;
    }
  }
  return result;
}

enum class Apart { kFirst, kSecond };

// s/(X)(Y)/ $1 $2/g for kFirst, s/(X)(Y)/$1 $2 /g for kSecond: pairs are taken from left to right, and a character
// belongs to one pair only.
template <typename First, typename Second>
std::u32string set_apart_in_pairs(std::u32string_view text, First first, Second second, Apart apart) {
  std::u32string result;
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 == text.size() || !first(text[i]) || !second(text[i + 1])) {
      result += text[i];
      continue;
    }
    if (apart == Apart::kFirst) result += U' ';
    result += {text[i], U' ', text[i + 1]};
    if (apart == Apart::kSecond) result += U' ';
    ++i;
  }
  return result;
}

bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_no_digit(char32_t c) { return !is_digit(c); }
bool is_stop(char32_t c) { return c == '.' || c == ','; }
bool is_dash(char32_t c) { return c == '-'; }
// [\{-\~\[-\` -\&\(-\+\:-\@\/]
bool is_set_apart_by_13a(char32_t c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') ||
         (c >= ':' && c <= '@') || c == '/';
}
bool is_no_number(char32_t c) { return !unicode::is_number(c); }

std::u32string tokenize_13a(std::u32string_view sentence) {
  std::u32string text = U" ";
  text.append(sentence).append(U" ");
  replace_all(text, U"<skipped>", U"");
  replace_all(text, U"-\n", U"");
  replace_all(text, U"\n", U" ");
  replace_all(text, U"&quot;", U"\"");
  replace_all(text, U"&amp;", U"&");
  replace_all(text, U"&lt;", U"<");
  replace_all(text, U"&gt;", U">");
  text = set_apart(text, is_set_apart_by_13a);
  text = set_apart_in_pairs(text, is_no_digit, is_stop, Apart::kSecond);
  text = set_apart_in_pairs(text, is_stop, is_no_digit, Apart::kFirst);
  return set_apart_in_pairs(text, is_digit, is_dash, Apart::kSecond);
}

std::u32string tokenize_intl(std::u32string_view sentence) {
  std::u32string text = set_apart_in_pairs(sentence, is_no_number, unicode::is_punctuation, Apart::kSecond);
  text = set_apart_in_pairs(text, unicode::is_punctuation, is_no_number, Apart::kFirst);
  return set_apart(text, unicode::is_symbol);
}

}  // namespace

const char* name_of(Tokenizer tokenizer) {
  for (const auto& [name, one] : kTokenizers) {
    if (one == tokenizer) return name;
  }
  MLBENCH_CHECK(false, "a tokeniser without a name");
  return "";
}

std::vector<std::string> tokenizer_names() { return names_of(kTokenizers); }

Tokenizer tokenizer_named(const std::string& name) { return row_named(kTokenizers, "tokenizer", name).tokenizer; }

std::u32string tokenize(Tokenizer tokenizer, std::u32string_view sentence) {
  switch (tokenizer) {
    case Tokenizer::k13a:
      return tokenize_13a(sentence);
    case Tokenizer::kIntl:
      return tokenize_intl(sentence);
    case Tokenizer::kNone:
      break;
  }
  return std::u32string(sentence);
}

}  // namespace mlbench::metrics
