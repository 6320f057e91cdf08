#include "mlbench/dataset/text/cleaning.h"

#include <gtest/gtest.h>

#include <string>

namespace mlbench::dataset::text {
namespace {

std::string words(int64_t count, const std::string& word = "a") {
  std::string text;
  for (int64_t i = 0; i < count; ++i) text += (i > 0 ? " " : "") + word;
  return text;
}

TEST(Cleaning, KeepsWhatCleanCorpusKeeps) {
  const CleaningRules rules;  // 1 to 80 words, at most 9 to 1
  EXPECT_EQ(judge_pair(rules, "a", "b"), Verdict::kKept);
  EXPECT_EQ(judge_pair(rules, "", "b"), Verdict::kEmpty);
  EXPECT_EQ(judge_pair(rules, "a", ""), Verdict::kEmpty);
  EXPECT_EQ(judge_pair(rules, words(80), words(80)), Verdict::kKept);
  EXPECT_EQ(judge_pair(rules, words(81), words(80)), Verdict::kWords);
  EXPECT_EQ(judge_pair(rules, words(18), words(2)), Verdict::kKept);
  EXPECT_EQ(judge_pair(rules, words(2), words(19)), Verdict::kRatio);
  EXPECT_EQ(judge_pair(rules, words(1, std::string(1000, 'x')), "b"), Verdict::kKept);
  EXPECT_EQ(judge_pair(rules, words(1, std::string(1001, 'x')), "b"), Verdict::kWord);
}

TEST(Cleaning, AWordsLengthIsInCharacters) {
  std::string word;
  for (int i = 0; i < 1000; ++i) word += "\u00FC";
  EXPECT_EQ(judge_pair({}, word, "b"), Verdict::kKept);
  EXPECT_EQ(judge_pair({}, word + "x", "b"), Verdict::kWord);
}

TEST(Cleaning, Latin1EndsAtFF) {
  const CleaningRules rules{.latin1 = true};
  EXPECT_EQ(judge_pair(rules, "gr\u00F6\u00DFer \u00FF", "\u00E9"), Verdict::kKept);
  EXPECT_EQ(judge_pair(rules, "\u0100", "b"), Verdict::kScript);
  EXPECT_EQ(judge_pair(rules, "a", "\u201EZitat\u201C"), Verdict::kScript);
}

TEST(Cleaning, RulesCanBeSwitchedOff) {
  const CleaningRules none{.least_words = 0, .most_words = 0, .most_ratio = 0};
  EXPECT_EQ(judge_pair(none, "", ""), Verdict::kKept);
  EXPECT_EQ(judge_pair(none, words(5000), "b"), Verdict::kKept);
  EXPECT_EQ(judge_pair({.least_words = 2}, "a", words(3)), Verdict::kWords);
}

TEST(Cleaning, CountsAddUp) {
  TextCounts counts;
  for (const Verdict verdict : {Verdict::kKept, Verdict::kKept, Verdict::kBadUtf8, Verdict::kTooLong, Verdict::kEmpty,
                                Verdict::kWords, Verdict::kRatio, Verdict::kWord, Verdict::kScript}) {
    counts.add(verdict);
  }
  EXPECT_EQ(counts.json().dump(),
            R"({"lines":9,"kept":2,"bad_utf8":1,"too_long":1,"empty":1,"words":1,"ratio":1,"word":1,"script":1})");
}

}  // namespace
}  // namespace mlbench::dataset::text
