#include "mlbench/dataset/text/pieces.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>
#include <sstream>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/process.h"
#include "mlbench/dataset/cached_tokens.h"
#include "mlbench/dataset/test_support.h"

namespace mlbench::dataset::text {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Words, AreCountedAndWrittenByFrequency) {
  WordCounts words;
  words.add("the dog the");
  words.add("  a dog  the ");
  const TemporaryFolder folder;
  words.write(folder / "words");
  EXPECT_EQ(read_file(folder / "words"), "the\t3\ndog\t2\na\t1\n");
  EXPECT_EQ(words.dropped(), 0);
}

TEST(Words, TheRarestGoWhenThereAreTooMany) {
  WordCounts words(4);
  words.add("a a a b b c d");
  EXPECT_EQ(words.size(), 4U);
  words.add("e");
  EXPECT_EQ(words.size(), 2U);
  EXPECT_EQ(words.dropped(), 3);
  const TemporaryFolder folder;
  words.write(folder / "words");
  EXPECT_EQ(read_file(folder / "words"), "a\t3\nb\t2\n");
}

TEST(Words, TheRarestGoWhenTheyTakeTooMuchMemory) {
  WordCounts words(1000, 20);
  words.add("frequent frequent short rare1 ");
  EXPECT_EQ(words.size(), 3U) << "18 bytes";
  words.add("longer");
  const TemporaryFolder folder;
  words.write(folder / "words");
  EXPECT_EQ(read_file(folder / "words"), "frequent\t2\n");
  EXPECT_EQ(words.dropped(), 3);
}

// In "abab", a+b (id 4) merges before b+a (id 5), the leftmost first.
TEST(PieceEncoder, MergesTheLowestIdFirst) {
  const std::string start(kWordStart);
  PieceEncoder encoder({"<pad>", "<unk>", "<s>", "</s>", "ab", "ba", start + "ab", "abab", "a", "b", start});
  std::vector<int32_t> ids;
  encoder.encode("abab", ids);
  EXPECT_THAT(ids, ElementsAre(6, 4)) << "_ab is there before abab, and of a lower id";
  encoder.encode("ba aab", ids);
  EXPECT_THAT(ids, ElementsAre(10, 5, 10, 8, 4));
  encoder.encode("", ids);
  EXPECT_THAT(ids, ElementsAre());
}

TEST(PieceEncoder, ARunOfUnknownCharactersIsOne) {
  const std::string start(kWordStart);
  PieceEncoder encoder({"<pad>", "<unk>", "<s>", "</s>", start, "a"});
  std::vector<int32_t> ids;
  encoder.encode("a\u20AC\u20ACa \u20AC", ids);
  EXPECT_THAT(ids, ElementsAre(4, 5, kUnknown, 5, 4, kUnknown));
  encoder.encode(std::string(5000, 'a') + " a", ids);
  EXPECT_THAT(ids, ElementsAre(kUnknown, 4, 5)) << "a word that is too long to merge";
}

class LearnedPieces : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(pieces_program())) GTEST_SKIP() << "missing capability: mlbench-pieces (SentencePiece)";
  }
  TemporaryFolder folder_;
};

// Learns from some sentences of tests/sacrebleu, and encodes all.
TEST_F(LearnedPieces, EncodeAsSentencePieceDoes) {
  keep_files_private();
  const fs::path tests = environment_variable("MLBENCH_TEST_SOURCE_DIR").value();
  WordCounts words;
  std::string text;
  for (const char* name : {"system.txt", "reference.txt", "second_reference.txt"}) {
    std::istringstream lines(read_file(tests / "tests/sacrebleu" / name));
    for (std::string line; std::getline(lines, line);) {
      if (name != std::string("second_reference.txt")) words.add(line);
      text += line + "\n";
    }
  }
  text += "x\u20ACy \u6771\u4EAC q &apos;s 1,000 a-b\n\n";
  words.write(folder_ / "words");
  const auto pieces = learn_pieces(folder_ / "words", 300, folder_ / "model");
  ASSERT_EQ(pieces.size(), 300U);
  struct stat words_info {
  }, model_info{};
  ASSERT_EQ(stat((folder_ / "words").c_str(), &words_info), 0);
  ASSERT_EQ(stat((folder_ / "model").c_str(), &model_info), 0);
  EXPECT_EQ(model_info.st_mode, words_info.st_mode) << "no more open than what this process writes";
  EXPECT_EQ(pieces[kPad], "<pad>");
  EXPECT_EQ(pieces[kEnd], "</s>");

  test::write_file(folder_ / "text", text);
  const FileDescriptor input(open((folder_ / "text").c_str(), O_RDONLY | O_CLOEXEC));
  ProcessOptions options;
  options.arguments = {pieces_program().string(), "encode", (folder_ / "model").string()};
  options.standard_input = input.get();
  const ProcessOutput expected = run_process(options, std::chrono::minutes(5));
  ASSERT_EQ(expected.end.code, 0) << expected.standard_error;

  PieceEncoder encoder(pieces);
  std::string made;
  std::istringstream lines(text);
  std::vector<int32_t> ids;
  for (std::string line; std::getline(lines, line);) {
    encoder.encode(line, ids);
    for (size_t i = 0; i < ids.size(); ++i) made += (i > 0 ? " " : "") + std::to_string(ids[i]);
    made += "\n";
  }
  EXPECT_EQ(made, expected.standard_output);
}

TEST_F(LearnedPieces, AreFewerWhereNothingIsLeftToMerge) {
  test::write_file(folder_ / "words", "ab\t3\n");
  EXPECT_THAT(learn_pieces(folder_ / "words", 100, folder_ / "model").size(), ::testing::Lt(12U));
}

TEST_F(LearnedPieces, RefusalsSayWhy) {
  test::write_file(folder_ / "words", "");
  EXPECT_THAT(test::message_of<UserError>([&] { learn_pieces(folder_ / "words", 100, folder_ / "model"); }),
              HasSubstr("holds no words"));
  // Seven characters, the mark before a word, four special pieces: SentencePiece would advise options of its program.
  test::write_file(folder_ / "words",
                   "abc\t3\nd\xE6\x9D\xB1"
                   "efab\t1\n");
  EXPECT_THAT(test::message_of<UserError>([&] { learn_pieces(folder_ / "words", 11, folder_ / "model"); }),
              "cannot learn 11 pieces of words: the words have 7 different characters; expected at least 12 pieces");
  EXPECT_EQ(learn_pieces(folder_ / "words", 12, folder_ / "model").size(), 12U);
}

}  // namespace
}  // namespace mlbench::dataset::text
