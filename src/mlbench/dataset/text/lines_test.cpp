#include "mlbench/dataset/text/lines.h"

#include <gmock/gmock.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/dataset/test_support.h"

namespace mlbench::dataset::text {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Lines : public ::testing::Test {
 protected:
  fs::path file(const std::string& name, const std::string& content) {
    test::write_file(folder_ / name, content);
    return folder_ / name;
  }
  std::vector<std::string> lines_of(const std::string& content) {
    TextLines lines(file("a.txt", content));
    std::vector<std::string> all;
    for (std::string line;;) {
      const TextLines::Kind kind = lines.next(line);
      if (kind == TextLines::Kind::kEnd) return all;
      all.push_back(kind == TextLines::Kind::kTooLong ? "too long" : line);
    }
  }
  std::vector<std::string> pairs_of(const std::vector<fs::path>& files) {
    PairReader reader(files);
    std::vector<std::string> all;
    for (LinePair pair; reader.next(pair);) all.push_back(pair.too_long ? "too long" : pair.source + "|" + pair.target);
    return all;
  }

  TemporaryFolder folder_;
};

TEST_F(Lines, EndWithOrWithoutCarriageReturnOrAtTheEndOfTheFile) {
  EXPECT_THAT(lines_of("a\nb\r\n\n\r\nc"), ElementsAre("a", "b", "", "", "c"));
  EXPECT_THAT(lines_of(""), ElementsAre());
  EXPECT_THAT(lines_of("\n"), ElementsAre(""));
}

TEST_F(Lines, AreUtf8WithOrWithoutItsMark) {
  using namespace std::string_literals;
  const std::string mark = "\xEF\xBB\xBF";
  EXPECT_THAT(lines_of(mark + "a\n" + mark + "b"), ElementsAre("a", mark + "b"));
  EXPECT_THAT(lines_of(mark), ElementsAre());
  // A block is not shorter for the mark.
  const std::string longer(inputs::kTextLine.most_bytes, 'x');
  EXPECT_THAT(lines_of(mark + longer + "\n" + longer), ElementsAre(longer, longer));
  test::write_file(folder_ / "own", mark + "a\0b\n"s);
  TextLines own(folder_ / "own", TextFile::Origin::kOwn);
  std::string line;
  own.next(line);
  EXPECT_EQ(line, mark + "a\0b"s);

  EXPECT_THAT(message_of<UserError>([&] {
                lines_of(
                    "\xFF\xFE"
                    "a\0\n\0"s);
              }),
              HasSubstr("a.txt is text in UTF-16"));
  EXPECT_THAT(message_of<UserError>([&] { lines_of("a\0\n\0"s); }), HasSubstr("a.txt: byte 2 is zero"));
  EXPECT_THAT(message_of<UserError>([&] { lines_of("\0a\0\n"s); }), HasSubstr("a.txt: byte 1 is zero"));
  const std::string wide = "o\0n\0e\0\n\0"s;
  for (const std::string& content : {"\xFF\xFE" + wide, wide}) {
    EXPECT_THAT(message_of<UserError>([&] { pairs_of({file("s", "eins\n"), file("t", content)}); }), HasSubstr("/t"));
    EXPECT_THAT(message_of<UserError>([&] { pairs_of({file("s.tsv", content)}); }), HasSubstr("s.tsv"));
  }
  EXPECT_THAT(message_of<UserError>([&] { lines_of("a\nb\n" + std::string(3 << 20, 'x') + "\0\n"s); }),
              HasSubstr("a.txt: byte 3145733 is zero"));
}

TEST_F(Lines, LongOnesArePassedOver) {
  const size_t most = inputs::kTextLine.most_bytes;
  EXPECT_THAT(lines_of("a\n" + std::string(most + 1, 'x') + "\nb\n" + std::string(5 * most, 'y')),
              ElementsAre("a", "too long", "b", "too long"));
  EXPECT_EQ(lines_of(std::string(most, 'x') + "\n").at(0).size(), most);
}

TEST_F(Lines, PackedFilesAreReadLikeOthers) {
  test::write_file(folder_ / "s.gz", test::gzip("one\ntwo\n"));
  EXPECT_THAT(pairs_of({folder_ / "s.gz", file("t", "eins\nzwei\n")}), ElementsAre("one|eins", "two|zwei"));
}

TEST_F(Lines, PairsOfSeveralFilesFollowEachOther) {
  EXPECT_THAT(pairs_of({file("s", "a\n"), file("t", "b\n"), file("s2", "c\nd\n"), file("t2", "e\nf")}),
              ElementsAre("a|b", "c|e", "d|f"));
  EXPECT_THAT(pairs_of({file("x.tsv", "a\tb\n\tc\td\n"), file("y.tsv", "e\t\n")}), ElementsAre("a|b", "|c", "e|"));
}

TEST_F(Lines, APairWithALongLineIsOne) {
  const std::string longer(inputs::kTextLine.most_bytes + 1, 'x');
  EXPECT_THAT(pairs_of({file("s", "a\n" + longer + "\nb\n"), file("t", "1\n2\n3\n")}),
              ElementsAre("a|1", "too long", "b|3"));
}

TEST_F(Lines, UnequalFilesAreRefusedWithBothCounts) {
  const auto shorter = file("s", "a\nb\n"), longer = file("t", "1\n2\n3\n4\n5\n");
  for (const auto& files : {std::vector{shorter, longer}, std::vector{longer, shorter}}) {
    EXPECT_THAT(
        message_of<UserError>([&] { pairs_of(files); }),
        AllOf(HasSubstr(shorter.string() + " has 2"), HasSubstr(longer.string() + " has 5"), HasSubstr("as many")));
  }
}

TEST_F(Lines, EmptyFilesAreRefused) {
  EXPECT_THAT(message_of<UserError>([&] {
                pairs_of({file("s", "a\n"), file("t", "")});
              }),
              AllOf(HasSubstr("/t is empty"), HasSubstr("a sentence a line")));
  EXPECT_THAT(message_of<UserError>([&] { pairs_of({file("x.tsv", "")}); }), HasSubstr("x.tsv is empty"));
}

TEST_F(Lines, OddFilesAreRefused) {
  EXPECT_THAT(message_of<UserError>([&] { PairReader({file("a", "x\n")}); }), HasSubstr("1 file,"));
  EXPECT_THAT(message_of<UserError>([&] {
                PairReader({file("a", "x\n"), file("b.tsv", "x\ty\n")});
              }),
              AllOf(HasSubstr("2 files, 1 of them"), HasSubstr("by turns")));
  EXPECT_THAT(message_of<UserError>([&] { pairs_of({file("b.tsv", "x\ty\nno tab\n")}); }),
              HasSubstr("b.tsv:2: no TAB"));
}

}  // namespace
}  // namespace mlbench::dataset::text
