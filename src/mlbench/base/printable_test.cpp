#include "mlbench/base/printable.h"

#include <gtest/gtest.h>

#include "mlbench/base/json.h"

namespace mlbench {
namespace {

TEST(Printable, PlainTextAndOtherScriptsStayAsTheyAre) {
  for (const std::string text : {"", "a b-c \\ \"d\"", "Zürich 東京 \U0001F600", "e\u0301"}) {
    EXPECT_EQ(printable(text), text);
    EXPECT_EQ(printable_lines(text), text);
  }
}

TEST(Printable, ControlCharactersAreShown) {
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\x1b[31mred\x1b[0m\x7f"), "\\x1b[31mred\\x1b[0m\\x7f");
  EXPECT_EQ(printable("ok\r\n12:00:00 error [x] forged\tline"), "ok\\r\\n12:00:00 error [x] forged\\tline");
  EXPECT_EQ(printable("\xC2\x9B"
                      "31m"),
            "\\x9b31m");  // CSI as one symbol
  EXPECT_EQ(printable("\xE2\x80\xAE"
                      "cod.exe"),
            "\\u202ecod.exe");  // right to left
  EXPECT_EQ(printable("one\xE2\x80\xA8two"), "one\\u2028two");
}

TEST(Printable, WhatIsNoUtf8IsShown) {
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("\xC0\xAF \xED\xA0\x80 \xE2\x82"), "\\xc0\\xaf \\xed\\xa0\\x80 \\xe2\\x82");
  EXPECT_EQ(printable("\xF5\x80\x80\x80"), "\\xf5\\x80\\x80\\x80");
}

TEST(Printable, LongTextIsCut) {
  EXPECT_EQ(printable("abcdef", 4), "abcd... (2 bytes more)");
  EXPECT_EQ(printable("abcd", 4), "abcd");
  EXPECT_EQ(printable("ab\xE6\x9D\xB1xy", 3), "ab\xE6\x9D\xB1... (2 bytes more)");  // no half a symbol
  EXPECT_LT(printable(std::string(1 << 20, '\x1b')).size(), size_t{2100});
}

TEST(Printable, LinesStayLinesButAreIndented) {
  EXPECT_EQ(printable_lines("one\n12:00:00 info [x] two\n\x1b[2J"), "one\n    12:00:00 info [x] two\n    \\x1b[2J");
  EXPECT_EQ(printable_lines("one\ntwo\x1b[2J\n", ""), "one\ntwo\\x1b[2J\n");
}

TEST(Printable, JsonIsTheSameValue) {
  const std::string name = "Z\xC3\xBCrich \xE2\x80\xAE\x7F\xC2\x9B end\n";
  const std::string text = printable_json(Json{{"name", name}}.dump(2));
  EXPECT_EQ(text, "{\n  \"name\": \"Z\xC3\xBCrich \\u202e\\u007f\\u009b end\\n\"\n}");
  EXPECT_EQ(Json::parse(text)["name"], name);
}

}  // namespace
}  // namespace mlbench
