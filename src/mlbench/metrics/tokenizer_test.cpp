#include "mlbench/metrics/tokenizer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unicode/uchar.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/sha256.h"
#include "mlbench/metrics/test_sacrebleu.h"
#include "mlbench/unicode/unicode.h"

namespace mlbench::metrics {
namespace {

using testing::ElementsAre;

TEST(Unicode, BadBytesAreFound) {
  EXPECT_EQ(unicode::first_bad_byte(""), std::nullopt);
  EXPECT_EQ(unicode::first_bad_byte("aä€😀\0b"), std::nullopt);
  EXPECT_EQ(unicode::first_bad_byte("ab\xE4 c"), 2U);          // Latin-1
  EXPECT_EQ(unicode::first_bad_byte("\xC0\xAF"), 0U);          // overlong
  EXPECT_EQ(unicode::first_bad_byte("x\xED\xA0\x80"), 1U);     // a surrogate
  EXPECT_EQ(unicode::first_bad_byte("\xF4\x90\x80\x80"), 0U);  // above U+10FFFF
  EXPECT_EQ(unicode::first_bad_byte("caf\xC3"), 3U);           // cut off
  EXPECT_EQ(unicode::code_points("a\xE4"
                                 "b"),
            U"a\uFFFDb");
}

TEST(Unicode, TextComesBack) {
  const std::string text = "aä€😀 \t\n";
  EXPECT_EQ(unicode::code_points(text), U"aä€😀 \t\n");
  EXPECT_EQ(unicode::to_utf8(unicode::code_points(text)), text);
}

TEST(Unicode, WordsAreWhatPythonSplits) {
  EXPECT_TRUE(unicode::words(U" \t\n").empty());
  EXPECT_THAT(unicode::words(U" a b\u00A0c\u3000d\u200Be\u001Cf "), ElementsAre(U"a", U"b", U"c", U"d\u200Be", U"f"));
  EXPECT_EQ(unicode::without_trailing_space(U" a\u00A0\u2003\r"), U" a");
}

TEST(Unicode, ClassesAndLowerCaseOfAllCharactersArePythons) {
  const Json& expected = sacrebleu()["characters"];
  ASSERT_EQ(expected["unicode"], "14.0.0");
  Sha256 hash;
  int64_t count = 0;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    const auto code = static_cast<UChar32>(c);
    const int8_t type = u_charType(code);
    UVersionInfo age;
    u_charAge(code, age);
    if (type == U_UNASSIGNED || type == U_SURROGATE || age[0] > 14) continue;
    hash.update(fmt::format("{:x} {:d}{:d}{:d}{:d} {}\n", static_cast<uint32_t>(c), unicode::is_punctuation(c),
                            unicode::is_symbol(c), unicode::is_number(c), unicode::is_space(c),
                            unicode::lower_case(unicode::to_utf8(std::u32string_view(&c, 1)))));
    ++count;
  }
  EXPECT_EQ(count, expected["code_points"].get<int64_t>());
  EXPECT_EQ(hash.hex(), expected["sha256"]);
}

TEST(Tokenizer, LinesAreThoseOfSacrebleu) {
  for (const Json& row : sacrebleu()["lines"]) {
    const auto line = row["line"].get<std::string>();
    EXPECT_EQ(unicode::lower_case(line), row["lower"]) << line;
    for (const std::string& name : tokenizer_names()) {
      EXPECT_EQ(tokens_of(tokenizer_named(name), line), row[name]) << name << ": " << line;
    }
  }
}

TEST(Tokenizer, EachHasItsName) {
  EXPECT_THAT(tokenizer_names(), ElementsAre("13a", "intl", "none"));
  for (const std::string& name : tokenizer_names()) EXPECT_EQ(name_of(tokenizer_named(name)), name);
  EXPECT_THAT([] { tokenizer_named("moses"); },
              testing::ThrowsMessage<UserError>("unknown tokenizer 'moses'; valid: 13a, intl, none"));
}

TEST(Tokenizer, LongLinesTakeLinearTime) {
  std::string line;
  for (int i = 0; i < 30'000; ++i) line += "&quot;.-";
  const std::u32string points = unicode::code_points(line);
  for (const std::string& name : tokenizer_names()) {
    EXPECT_FALSE(tokenize(tokenizer_named(name), points).empty());  // quadratic time would be minutes
  }
}

}  // namespace
}  // namespace mlbench::metrics
