#include "mlbench/metrics/translations.h"

#include <gmock/gmock.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/test_error.h"
#include "mlbench/metrics/test_sacrebleu.h"

namespace mlbench::metrics {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

class TranslationsTest : public testing::Test {
 protected:
  std::filesystem::path file(const std::string& name, std::string_view content) const {
    write_file_atomically(folder_ / name, content);
    return folder_ / name;
  }

  TemporaryFolder folder_;
};

TEST_F(TranslationsTest, LinesEndInLineFeedsAndLoseTrailingSpace) {
  EXPECT_THAT(read_sentences(file("a",
                                  "ä b\r\n\n c \u00A0\t\nd\u2028e\x0B"
                                  "f\n")),
              ElementsAre("ä b", "", " c",
                          "d\u2028e\x0B"
                          "f"));
  EXPECT_THAT(read_sentences(file("a", "one\ntwo")), ElementsAre("one", "two"));
  EXPECT_THAT(read_sentences(file("a", "\n")), ElementsAre(""));
  EXPECT_THAT(read_sentences(file("a",
                                  "\xEF\xBB\xBF"
                                  "a\n\uFEFFb")),
              ElementsAre("a", "\uFEFFb"))
      << "sacreBLEU takes the mark for a letter of the first sentence";
}

TEST_F(TranslationsTest, ErrorsNameTheLine) {
  EXPECT_THAT(error_of([&] { read_sentences(file("l1", "gut\nsch\xF6n\n")); }),
              AllOf(HasSubstr("l1:2: byte 4 of the line, 0xf6, is no UTF-8"), HasSubstr("iconv -f latin1")));
  EXPECT_THAT(error_of([&] { read_sentences(file("e", "")); }),
              HasSubstr("e is empty: expected one sentence per line"));
  EXPECT_THAT(error_of([&] { read_sentences(file("long", "a\n" + std::string(2 << 20, 'x'))); }),
              HasSubstr("long:2: the line is longer than 1048576 bytes"));
  EXPECT_THROW(read_sentences(folder_ / "none"), IoError);
  EXPECT_THROW(read_sentences(folder_.path()), IoError);
}

TEST_F(TranslationsTest, Utf16IsRefused) {
  using namespace std::string_view_literals;
  EXPECT_THAT(error_of([&] { read_sentences(file("u", "\xFF\xFEg\0u\0t\0\n\0"sv)); }),
              HasSubstr("u is text in UTF-16 or UTF-32; expected UTF-8"));
  EXPECT_THAT(error_of([&] { read_sentences(file("le", "g\0u\0t\0\n\0"sv)); }),
              AllOf(HasSubstr("le: byte 2 is zero"), HasSubstr("iconv -f utf-16le -t utf-8")));
  EXPECT_THAT(error_of([&] { read_sentences(file("z", "gut\nsch\0n\n"sv)); }), HasSubstr("z: byte 8 is zero"));
}

TEST_F(TranslationsTest, FilesHaveEquallyManyLines) {
  const auto two = file("two", "a\nb\n"), three = file("three", "a\nb\nc\n");
  EXPECT_THAT(error_of([&] { score_translations({two}, {three}, {}); }),
              AllOf(HasSubstr("two has 2 lines, "), HasSubstr("three has 3: line i of each is the same sentence")));
  EXPECT_THAT(error_of([&] { score_translations({two}, {two, three}, {}); }), HasSubstr("three has 3 lines, "));
  EXPECT_THAT(error_of([&] { score_translations({two, three}, {two}, {}); }), HasSubstr("three has 3 lines, "));
}

TEST_F(TranslationsTest, SystemsAreComparedWithTheFirst) {
  const auto folder = sacrebleu_folder();
  const TranslationScores result =
      score_translations({folder / "system.txt", folder / "other.txt", folder / "system.txt"},
                         {folder / "reference.txt", folder / "second_reference.txt"}, {.metrics = {"chrf++", "bleu"}});
  EXPECT_EQ(result.sentences, 40U);
  ASSERT_THAT(result.systems, SizeIs(3));
  EXPECT_THAT(result.systems[0].differences, SizeIs(0));
  for (const auto& system : result.systems) {
    ASSERT_THAT(system.scores, SizeIs(2));
    EXPECT_EQ(system.scores[0].name, "chrF2++");
    EXPECT_EQ(system.scores[1].metric, "bleu");
    EXPECT_THAT(system.scores[1].signature, HasSubstr("nrefs:2|"));
  }
  for (size_t m = 0; m < 2; ++m) {
    const PairedDifference& other = result.systems[1].differences[m];
    EXPECT_DOUBLE_EQ(other.difference, result.systems[1].scores[m].score - result.systems[0].scores[m].score);
    EXPECT_LT(other.low, other.difference);
    EXPECT_LT(other.difference, other.high);
    EXPECT_EQ(result.systems[2].differences[m].difference, 0);
  }
}

}  // namespace
}  // namespace mlbench::metrics
