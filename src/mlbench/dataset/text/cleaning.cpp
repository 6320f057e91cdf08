#include "mlbench/dataset/text/cleaning.h"

#include <algorithm>

#include "mlbench/dataset/text/characters.h"

namespace mlbench::dataset::text {

namespace {

struct SideFacts {
  int64_t words = 0, longest = 0;
};

SideFacts facts_of(std::string_view tokens) {
  SideFacts facts;
  for_each_word(tokens, [&](std::string_view word) {
    ++facts.words;
    const auto continuing = std::ranges::count_if(word, [](char c) { return (c & 0xC0) == 0x80; });
    facts.longest = std::max(facts.longest, std::ssize(word) - continuing);
  });
  return facts;
}

// UTF-8 of U+0000 to U+00FF begins with a byte below 0xC4.
bool is_latin1(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0xC4; });
}

}  // namespace

Verdict judge_pair(const CleaningRules& rules, std::string_view source, std::string_view target) {
  const SideFacts s = facts_of(source), t = facts_of(target);
  const int64_t shorter = std::min(s.words, t.words), longer = std::max(s.words, t.words);
  if (shorter == 0 && rules.least_words > 0) return Verdict::kEmpty;
  if (shorter < rules.least_words || (rules.most_words > 0 && longer > rules.most_words)) return Verdict::kWords;
  if (rules.most_ratio > 0 && static_cast<double>(longer) > rules.most_ratio * static_cast<double>(shorter)) {
    return Verdict::kRatio;
  }
  if (rules.most_words > 0 && std::max(s.longest, t.longest) > kLongestWord) return Verdict::kWord;
  if (rules.latin1 && !(is_latin1(source) && is_latin1(target))) return Verdict::kScript;
  return Verdict::kKept;
}

void TextCounts::add(Verdict verdict) {
  ++lines;
  switch (verdict) {
    case Verdict::kKept:
      ++kept;
      break;
    case Verdict::kBadUtf8:
      ++bad_utf8;
      break;
    case Verdict::kTooLong:
      ++too_long;
      break;
    case Verdict::kEmpty:
      ++empty;
      break;
    case Verdict::kWords:
      ++words;
      break;
    case Verdict::kRatio:
      ++ratio;
      break;
    case Verdict::kWord:
      ++word;
      break;
    case Verdict::kScript:
      ++script;
      break;
  }
}

Json TextCounts::json() const {
  return {{"lines", lines}, {"kept", kept},   {"bad_utf8", bad_utf8}, {"too_long", too_long}, {"empty", empty},
          {"words", words}, {"ratio", ratio}, {"word", word},         {"script", script}};
}

}  // namespace mlbench::dataset::text
