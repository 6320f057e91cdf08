#include "mlbench/dataset/text/vocabulary.h"

#include <gmock/gmock.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/dataset/cached_tokens.h"
#include "mlbench/dataset/test_support.h"
#include "mlbench/dataset/text/subword_dictionary.h"

namespace mlbench::dataset::text {
namespace {

using test::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kSpecials = {"<pad>", "<unk>", "<s>", "</s>"};

std::vector<std::string> with_specials(std::vector<std::string> tokens) {
  tokens.insert(tokens.begin(), kSpecials.begin(), kSpecials.end());
  return tokens;
}

std::vector<int32_t> encode(TextVocabulary& vocabulary, const std::string& line) {
  std::vector<int32_t> ids;
  vocabulary.encode(line, ids);
  return ids;
}

TEST(Vocabulary, OfWordsHasNoPadding) {
  TextVocabulary vocabulary({VocabularyKind::kWords, 8, "", ""}, {"the", "<unk>", ",", "<eos>", "dog"});
  EXPECT_THAT(encode(vocabulary, "the cat , <unk> dog"), ElementsAre(0, kUnknown, 2, kUnknown, 4));
  EXPECT_EQ(vocabulary.text(std::vector<int64_t>{0, 4, 2, 3, 1, 7, -1}), "the dog , <eos> <unk>");
}

TEST(Vocabulary, OfPiecesJoinsAndDetokenizes) {
  const TextVocabulary vocabulary({VocabularyKind::kPieces, 16, "en", "de"},
                                  with_specials({"\u2581Hund", "e", "\u2581.", "\u2581&quot;", "\u2581Ja"}));
  EXPECT_EQ(vocabulary.text(std::vector<int64_t>{kBegin, 7, 8, 7, 4, 5, 6, kEnd, 4, kPad}), "\"Ja\" Hunde.");
  EXPECT_EQ(vocabulary.text(std::vector<int64_t>{15, 4, kEnd}), "Hund") << "an id of the padding stands for nothing";
  EXPECT_EQ(vocabulary.text({}), "");
}

TEST(Vocabulary, OfMarkedPartsJoinsThem) {
  TextVocabulary vocabulary({VocabularyKind::kMarked, 8, "en", "de"}, with_specials({"Hun@@", "de", ".", "so@@"}));
  EXPECT_THAT(encode(vocabulary, "Hun@@ de . x"), ElementsAre(4, 5, 6, kUnknown));
  EXPECT_EQ(vocabulary.text(std::vector<int64_t>{4, 5, 6, kEnd}), "Hunde.");
  EXPECT_EQ(vocabulary.text(std::vector<int64_t>{5, 7}), "de so");
}

TEST(Vocabulary, IsReadBack) {
  const TemporaryFolder folder;
  TextVocabulary vocabulary({VocabularyKind::kMarked, 8, "en", "de"}, with_specials({"\u00FC@@", "b", "", "c"}));
  vocabulary.save(folder / "v");
  TextVocabulary read = TextVocabulary::load(folder / "v");
  EXPECT_EQ(read.tokens(), vocabulary.tokens());
  EXPECT_EQ(read.spec().size, 8);
  EXPECT_EQ(read.spec().target_language, "de");
  EXPECT_THAT(encode(read, "b \u00FC@@"), ElementsAre(5, 4));
}

TEST(Vocabulary, DamageIsNamed) {
  const TemporaryFolder folder;
  const std::string head =
      R"({"mlbench_vocabulary":1,"kind":"words","size":8,"source_language":"","target_language":""})";
  const auto refused = [&](const std::string& content) {
    test::write_file(folder / "v", content);
    return message_of<UserError>([&] { TextVocabulary::load(folder / "v"); });
  };
  EXPECT_THAT(refused(""), AllOf(HasSubstr("/v is no vocabulary"), HasSubstr("no end")));
  EXPECT_THAT(refused("{}\n"), HasSubstr("version 1"));
  EXPECT_THAT(refused(head + "\na\nb\nc\nd"), HasSubstr("no end"));
  EXPECT_THAT(refused(head + "\na\nb\n"), HasSubstr("2 tokens, expected 4 to 8"));
  std::string other = head;
  other.replace(other.find("words"), 5, "runes");
  EXPECT_THAT(refused(other + "\n"), AllOf(HasSubstr("'runes'"), HasSubstr("words, pieces, marked, subwords")));
}

// ---- subwords -------------------------------------------------------------------------------------------------------

const std::vector<std::string> kEscapes = {"\\", "u", "_", ";", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

std::vector<std::string> subwords(const std::vector<std::string>& more) {
  std::vector<std::string> all = with_specials(kEscapes);
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<std::string> names(const SubwordDictionary& dictionary, const std::string& text) {
  std::vector<std::string> all;
  for (const int32_t id : dictionary.encode(text)) all.push_back(dictionary.subwords()[static_cast<size_t>(id)]);
  return all;
}

TEST(Subwords, AreTheLongestFromLeftToRight) {
  const SubwordDictionary dictionary(subwords({"the_", "the", "d", "o", "g", "dog_", "s", ", _", ",", " ", "."}));
  EXPECT_THAT(names(dictionary, "the dogs, the."),
              ElementsAre("the_", "d", "o", "g", "s", "_", ", _", "the_", ".", "_"));
}

TEST(Subwords, EscapeWhatTheyLack) {
  const SubwordDictionary dictionary(subwords({"a"}));
  EXPECT_THAT(names(dictionary, "a\u20AC"), ElementsAre("a", "_", "\\", "8", "3", "6", "4", ";", "_"));
  EXPECT_THAT(names(dictionary, "_\\"), ElementsAre("\\", "u", "\\", "\\", "_"));
}

TEST(Subwords, GiveTheTextBack) {
  const SubwordDictionary dictionary(subwords({"the_", "d", "o", "g", ", _", ",", " ", ".", "a", "b"}));
  for (const std::string text :
       {"the dog, the dog.", "a_b \\u a\\\\b \\8364;", "\u20AC 5 \U0001F600a  b", "dog", "1,5 u. 3;4"}) {
    const auto ids = dictionary.encode(text);
    EXPECT_EQ(dictionary.decode(std::vector<int64_t>(ids.begin(), ids.end())), text);
  }
  EXPECT_THAT(dictionary.encode(" \t"), ElementsAre());
  EXPECT_EQ(dictionary.decode(std::vector<int64_t>{kPad, kBegin, 99999, -5, kEnd}), "");
}

TEST(Subwords, ADictionaryMustBeAbleToWriteEverything) {
  EXPECT_THAT(message_of<UserError>([] {
                SubwordDictionary(with_specials({"a", "b"}));
              }),
              HasSubstr("no subword '\\'"));
  EXPECT_THAT(message_of<UserError>([] { SubwordDictionary(subwords({"a", "a"})); }), HasSubstr("there twice"));
}

TEST(Subwords, AreReadFromAFile) {
  const TemporaryFolder folder;
  test::write_file(folder / "d", "'<pad>_'\n'<EOS>_'\n'the_'\n\"it's_\"\n'<bypass_unk>'\n'''\n");
  const DictionaryFile file = read_dictionary(folder / "d");
  EXPECT_THAT(file.subwords, ElementsAre("<pad>", "<unk>", "<s>", "</s>", "the_", "it's_", "'"));
  EXPECT_THAT(file.from_file_ids, ElementsAre(kBegin, kPad, kEnd, 4, 5, kUnknown, 6));

  test::write_file(folder / "d", "'<lua_index_compat>'\n'<pad>_'\n'<EOS>_'\n'the_'\n");
  EXPECT_THAT(read_dictionary(folder / "d").from_file_ids, ElementsAre(kBegin, kPad, kEnd, 4));

  test::write_file(folder / "d", "'a'\nb\n");
  EXPECT_THAT(message_of<UserError>([&] { read_dictionary(folder / "d"); }), HasSubstr("/d:2: expected a subword"));
  test::write_file(folder / "d", "");
  EXPECT_THAT(message_of<UserError>([&] { read_dictionary(folder / "d"); }), HasSubstr("is empty"));
}

}  // namespace
}  // namespace mlbench::dataset::text
