#include "mlbench/report/draw/escape.h"

#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <utility>
#include <vector>

namespace mlbench::report {
namespace {

std::string all_of_ascii() {
  std::string all;
  for (char c = ' '; c <= '~'; ++c) all += c;
  return all;
}

// What Markdown shows: a backslash in front of punctuation is not shown.
std::string shown_by_markdown(const std::string& text) {
  std::string shown;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 1 < text.size() && std::ispunct(static_cast<unsigned char>(text[i + 1])) != 0) ++i;
    shown += text[i];
  }
  return shown;
}

TEST(MarkdownText, ShowsEveryCharacterAsItWasGiven) {
  EXPECT_EQ(shown_by_markdown(markdown_text(all_of_ascii())), all_of_ascii());
  EXPECT_EQ(shown_by_markdown(markdown_text("\\|\\")), "\\|\\");
  EXPECT_EQ(markdown_text("a|b"), "a\\|b");
  EXPECT_EQ(markdown_text("[x](javascript:y) <b> &amp; ~~z~~ # $1$ _e_ *f*"),
            "\\[x\\](javascript:y) \\<b\\> \\&amp; \\~\\~z\\~\\~ \\# \\$1\\$ \\_e\\_ \\*f\\*");
  EXPECT_EQ(markdown_text("one\ntwo\x1b[2J"), "one\\\\ntwo\\\\x1b\\[2J") << "a line stays a line";
}

TEST(LatexText, TakesTheMeaningFromEveryCharacterThatHasOne) {
  const std::vector<std::pair<std::string, std::string>> expected = {{"\\", "\\textbackslash{}"},
                                                                     {"{", "\\{"},
                                                                     {"}", "\\}"},
                                                                     {"$", "\\$"},
                                                                     {"&", "\\&"},
                                                                     {"#", "\\#"},
                                                                     {"_", "\\_"},
                                                                     {"%", "\\%"},
                                                                     {"~", "\\textasciitilde{}"},
                                                                     {"^", "\\textasciicircum{}"},
                                                                     {"<", "\\textless{}"},
                                                                     {">", "\\textgreater{}"},
                                                                     {"|", "\\textbar{}"},
                                                                     {"\"", "\\char34{}"},
                                                                     {"`", "\\textasciigrave{}"},
                                                                     {"'", "\\textquotesingle{}"},
                                                                     {"[", "{[}"},
                                                                     {"]", "{]}"},
                                                                     {"*", "{*}"}};
  std::string plain;
  for (const char c : all_of_ascii()) {
    bool special = false;
    for (const auto& [given, latex] : expected) {
      if (given[0] != c) continue;
      EXPECT_EQ(latex_text(given), latex);
      special = true;
    }
    if (!special) plain += c;
  }
  EXPECT_EQ(latex_text(plain), plain);
  EXPECT_EQ(latex_text("--share-host"), "-{}-share-host") << "no dash";
  EXPECT_EQ(latex_text("0.50 [0.49, 0.51]"), "0.50 {[}0.49, 0.51{]}") << "no argument of a row's end";
  EXPECT_EQ(latex_text("\\input{/etc/passwd}\n%"), "\\textbackslash{}input\\{/etc/passwd\\}\\textbackslash{}n\\%");
}

TEST(CsvText, QuotesAndMakesNoFormula) {
  EXPECT_EQ(csv_text("plain"), "plain");
  EXPECT_EQ(csv_text("a, \"b\""), "\"a, \"\"b\"\"\"");
  EXPECT_EQ(csv_text("=1+1"), "'=1+1");
  EXPECT_EQ(csv_cell_of(nullptr) + csv_cell_of(true) + csv_cell_of(1.5) + csv_cell_of("@x,y"), "11.5\"'@x,y\"");
}

}  // namespace
}  // namespace mlbench::report
