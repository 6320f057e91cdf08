#pragma once

// Which pairs of sentences are trained on, and counts of why the others are not. Internal to dataset/.

#include <cstdint>
#include <string_view>

#include "mlbench/base/json.h"

namespace mlbench::dataset::text {

// The rules of Moses' scripts/training/clean-corpus-n.perl, and of MLBench's filter of WMT16.
struct CleaningRules {
  int64_t least_words = 1;  // on each side; 0: empty lines are kept, too
  int64_t most_words = 80;  // on each side; 0: any number
  double most_ratio = 9;    // words of one side over those of the other; 0: any ratio
  bool latin1 = false;      // true: characters beyond U+00FF are refused
};
inline constexpr int64_t kLongestWord = 1000;  // code points in a word; a longer one is refused where most_words > 0

enum class Verdict { kKept, kBadUtf8, kTooLong, kEmpty, kWords, kRatio, kWord, kScript };

// Judges a pair of lines whose tokens have one blank between them. Never returns kBadUtf8 or kTooLong.
Verdict judge_pair(const CleaningRules& rules, std::string_view source, std::string_view target);

// Counts of lines, and of those that are not trained on by reason.
struct TextCounts {
  int64_t lines = 0, kept = 0;
  int64_t bad_utf8 = 0;  // dropped lines; in an evaluated split, which drops none: lines with bytes replaced by U+FFFD
  int64_t too_long = 0;  // lines longer than inputs::kTextLine
  int64_t empty = 0, words = 0, ratio = 0, word = 0, script = 0;  // by the rules above

  void add(Verdict verdict);
  Json json() const;
};

}  // namespace mlbench::dataset::text
