#pragma once

// Which pairs of sentences are trained on, and what became of the others. Internal to dataset/.

#include <cstdint>
#include <string_view>

#include "mlbench/base/json.h"

namespace mlbench::dataset::text {

// What Moses' scripts/training/clean-corpus-n.perl keeps, and what MLBench's filter of WMT16 does.
struct CleaningRules {
  int64_t least_words = 1;  // of each side; 0: empty lines are kept, too
  int64_t most_words = 80;  // of each side; 0: any number
  double most_ratio = 9;    // of the words of one side to those of the other; 0: any
  bool latin1 = false;      // no character beyond U+00FF
};
inline constexpr int64_t kLongestWord = 1000;  // code points, where most_words is given

enum class Verdict { kKept, kBadUtf8, kTooLong, kEmpty, kWords, kRatio, kWord, kScript };

// Of tokens with one blank between them.
Verdict judge_pair(const CleaningRules& rules, std::string_view source, std::string_view target);

// Lines, and those that are not trained on by reason.
struct TextCounts {
  int64_t lines = 0, kept = 0;
  int64_t bad_utf8 = 0;  // dropped; where every line is kept (a split that is evaluated): bytes replaced by U+FFFD
  int64_t too_long = 0;  // lines over inputs::kTextLine
  int64_t empty = 0, words = 0, ratio = 0, word = 0, script = 0;  // of the rules above

  void add(Verdict verdict);
  Json json() const;
};

}  // namespace mlbench::dataset::text
