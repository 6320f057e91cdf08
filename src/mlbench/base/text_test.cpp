#include "mlbench/base/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/replace.h"

namespace mlbench {
namespace {

TEST(Text, IsTrimmedAtItsEndsAlone) {
  EXPECT_EQ(trimmed(" \t one two \r\n"), "one two");
  EXPECT_EQ(trimmed("one"), "one");
  EXPECT_EQ(trimmed(" \n"), "");
  EXPECT_EQ(trimmed(""), "");
}

using testing::ElementsAre;

TEST(Text, PartsLieBetweenSeparators) {
  EXPECT_THAT(split_at("a,bc,,d", ','), ElementsAre("a", "bc", "", "d"));
  EXPECT_THAT(split_at("a,", ','), ElementsAre("a", ""));
  EXPECT_THAT(split_at("", ','), ElementsAre(""));
}

TEST(Text, ANounIsInThePluralButForOne) {
  EXPECT_EQ(counted(0, "worker"), "0 workers");
  EXPECT_EQ(counted(1, "worker"), "1 worker");
  EXPECT_EQ(counted(1000, "worker"), "1000 workers");
}

TEST(Text, TheLastLineIsWithoutItsEnd) {
  EXPECT_EQ(last_line("one\ntwo\n\n"), "two");
  EXPECT_EQ(last_line("one"), "one");
  EXPECT_EQ(last_line("\n"), "");
}

TEST(Text, WordsAreSplitAsAShellDoes) {
  EXPECT_THAT(split_words("python3  train.py\t--rank {rank}\n"),
              ElementsAre("python3", "train.py", "--rank", "{rank}"));
  EXPECT_THAT(split_words(R"(sh -c 'echo "$HOME"' "a b"c "" d\ e "x\"y\z")"),
              ElementsAre("sh", "-c", R"(echo "$HOME")", "a bc", "", "d e", R"(x"y\z)"));
  EXPECT_TRUE(split_words(" \t").empty());
  EXPECT_THROW(split_words("say 'it"), UserError);
}

TEST(Text, ControlCharactersAreSeen) {
  for (const char* has : {"a\nb", "\t", "\x7f", "\x01z"}) EXPECT_TRUE(has_control_character(has)) << has;
  for (const char* has_none : {"", "a b", "\u00FC~"}) EXPECT_FALSE(has_control_character(has_none)) << has_none;
  EXPECT_FALSE(has_control_character("a\r\n\t", "\n\r\t"));
  for (const char* has : {"a\n\f", "\x7f"}) EXPECT_TRUE(has_control_character(has, "\n\r\t")) << has;
}

TEST(Text, PathsAreReplacedWhereNoOtherNameGoesOn) {
  std::string text = "/runs/a:/runs/a-2 /runs/a/b,x=/runs/a";
  replace_path(text, "/runs/a", "/tmp/runs/a");
  EXPECT_EQ(text, "/tmp/runs/a:/runs/a-2 /tmp/runs/a/b,x=/tmp/runs/a");
}

TEST(Text, WhatIsReplacedIsNotSearchedAgain) {
  std::string text = "aaa b aa";
  replace_all(text, "aa", "a");
  EXPECT_EQ(text, "aa b a");
  replace_all(text, "c", "d");
  EXPECT_EQ(text, "aa b a");
  std::u32string wide = U"<>x<>";
  replace_all(wide, U"<>", U"");
  EXPECT_EQ(wide, U"x");
}

TEST(Text, EveryWordIsFilledInOnce) {
  std::string text = "{rank} of {rank}";
  fill_in(text, "{rank}", "a {rank}");
  EXPECT_EQ(text, "a {rank} of a {rank}");
  std::vector<std::string> command = {"run", "--id={id}", "{id}{id}"};
  fill_in(command, "{id}", "7");
  EXPECT_THAT(command, testing::ElementsAre("run", "--id=7", "77"));
}

}  // namespace
}  // namespace mlbench
