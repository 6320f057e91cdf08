#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>

#include "mlbench/base/choices.h"
#include "mlbench/base/replace.h"
#include "mlbench/dataset/text/characters.h"
#include "mlbench/dataset/text/moses.h"

namespace mlbench::dataset::text {

namespace {

// Undoes escapes, &amp; last, so that its result is not taken for another escape.
void unescape(std::string& text) {
  struct Escape {
    std::string_view from, to;
  };
  static constexpr std::array kEscapes = {
      Escape{"&bar;", "|"}, Escape{"&#124;", "|"}, Escape{"&lt;", "<"},    Escape{"&gt;", ">"},
      Escape{"&bra;", "["}, Escape{"&ket;", "]"},  Escape{"&quot;", "\""}, Escape{"&apos;", "'"},
      Escape{"&#91;", "["}, Escape{"&#93;", "]"},  Escape{"&amp;", "&"},
  };
  if (text.find('&') == std::string::npos) return;
  for (const Escape& escape : kEscapes) replace_all(text, escape.from, escape.to);
}

bool all_of(std::u32string_view word, std::u32string_view set) {
  return word.find_first_not_of(set) == std::u32string_view::npos;
}

// Whether a word (currency signs, opening brackets) is joined to the word after it.
bool leans_right(std::u32string_view word) {
  return std::ranges::all_of(word, [](char32_t c) {
    return c == U'(' || c == U'[' || c == U'{' || c == U'\u00BF' || c == U'\u00A1' || is_currency(c);
  });
}

// Tells whether a quotation mark opens: marks of each kind open and close by turns. Keeps views of the marks it is
// given.
class Quotes {
 public:
  bool opens(std::u32string_view mark) { return count(mark) % 2 == 0; }
  void take(std::u32string_view mark) { ++count(mark); }

 private:
  int& count(std::u32string_view mark) { return counts_[all_of(mark, U"\u201E\u201C\u201D") ? U"\"" : mark]; }

  std::unordered_map<std::u32string_view, int> counts_;
};

}  // namespace

MosesDetokenizer::MosesDetokenizer(std::string_view language) : english_(language == "en") {
  check_choice("language of a detokeniser", language, moses_languages());
}

std::string MosesDetokenizer::detokenize(std::string_view tokens) const {
  std::string padded = " " + std::string(tokens) + " ";
  replace_all(padded, " @-@ ", "-");
  unescape(padded);
  const std::u32string text = code_points(padded);
  const auto words = unicode::words(text);

  std::u32string result;
  Quotes quotes;
  bool space = true;  // before the next word
  const auto put = [&](std::u32string_view word, bool blank_before, bool blank_behind) {
    if (blank_before && space) result += U' ';
    result += word;
    space = blank_behind;
  };
  for (size_t i = 0; i < words.size(); ++i) {
    const std::u32string_view word = words[i];
    const bool contraction = english_ && i > 0 && word.size() > 1 && word[0] == U'\'' && is_alpha(word[1]);
    if (is_cjk(word.front())) {
      put(word, i == 0 || !is_cjk(words[i - 1].back()), true);
    } else if (leans_right(word)) {
      put(word, true, false);
    } else if (all_of(word, U",.?!:;\\%}])")) {
      put(word, false, true);
    } else if (contraction) {
      put(word, false, true);
    } else if (all_of(word, U"'\"\u201E\u201C`")) {
      const bool possessive = english_ && word == U"'" && i > 0 && words[i - 1].back() == U's';
      const bool opens = quotes.opens(word);
      if (opens && possessive) {
        put(word, false, true);  // the Jones' house
      } else {
        put(word, opens, !opens);
        quotes.take(word);
      }
    } else {
      put(word, true, true);
    }
  }
  return to_utf8(stripped(result));
}

}  // namespace mlbench::dataset::text
