#include "mlbench/dataset/text/prepared_text.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/input.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/sha256.h"
#include "mlbench/dataset/prepare.h"
#include "mlbench/dataset/test_support.h"
#include "mlbench/dataset/text/pieces.h"
#include "mlbench/dataset/text/text_files.h"
#include "mlbench/dataset/text/text_format.h"

namespace mlbench::dataset::text {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PreparedTexts : public ::testing::Test {
 protected:
  PreparedDataset prepare_all(const DatasetDescription& description) {
    lines_.clear();
    return prepare(description, {data_.path().string()}, cache_.path(),
                   [&](const std::string& line) { lines_.push_back(line); });
  }
  std::vector<std::string> in_cache() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(cache_.path())) {
      if (entry.path().extension() != ".lock") names.push_back(entry.path().filename());
    }
    return names;
  }
  static std::vector<int32_t> ids_of(const TokenColumn& column) {
    return {column.elements.begin(), column.elements.end()};
  }

  TemporaryFolder data_, cache_;
  std::vector<std::string> lines_;
};

// ---- words ----------------------------------------------------------------------------------------------------------

class PreparedWords : public PreparedTexts {
 protected:
  static DatasetDescription description(int64_t classes = 7) {
    return parse_description("w.toml",
                             "name = \"w\"\ntitle = \"W\"\nformat = \"words\"\nclasses = " + std::to_string(classes) +
                                 "\nfolder = \"w\"\n[[split]]\nname = \"train\"\nsamples = 11\n"
                                 "[[split.file]]\npattern = \"a.txt\"\n[[split]]\nname = \"test\"\n"
                                 "samples = 3\n[[split.file]]\npattern = \"b.txt\"\n");
  }
  void SetUp() override {
    test::write_file(data_ / "w/a.txt", " \n b a  a \n\na <unk> b c \n");
    test::write_file(data_ / "w/b.txt", "a d\n");
  }
};

TEST_F(PreparedWords, AreOneRecordWithAnEndPerLine) {
  const PreparedDataset data = prepare_all(description());
  const TokenColumn& train = data.split("train").column<TokenColumn>("tokens");
  // a: 4 times, b: 2, c and d: once, in the order of their coming.
  EXPECT_EQ(train.records(), 1);
  EXPECT_THAT(ids_of(train), ElementsAre(kEnd, 2, 0, 0, kEnd, kEnd, 0, kUnknown, 2, 4, kEnd));
  EXPECT_THAT(ids_of(data.split("test").column<TokenColumn>("tokens")), ElementsAre(0, 5, kEnd));
  EXPECT_THAT(data.text()->vocabulary().tokens(), ElementsAre("a", "<unk>", "b", "<eos>", "c", "d"));
  EXPECT_EQ(data.text()->facts()["splits"]["train"]["tokens"], 11);
  EXPECT_EQ(data.classes(), 7);
  EXPECT_THAT(lines_,
              ElementsAre(HasSubstr("preparing w from"), HasSubstr("w train: {\"lines\":4"), HasSubstr("w test:")));
}

TEST_F(PreparedWords, BeyondTheVocabularyAreUnknown) {
  const PreparedDataset data = prepare_all(description(5));
  EXPECT_THAT(ids_of(data.split("test").column<TokenColumn>("tokens")), ElementsAre(0, kUnknown, kEnd));
  EXPECT_THAT(lines_, ::testing::Contains(HasSubstr("1 of 6 words do not fit into a vocabulary of 5")));
}

TEST_F(PreparedWords, BadLinesAreCountedAndLeftOut) {
  test::write_file(data_ / "w/a.txt", "a b\n\xFF\xFE c\n" + std::string(inputs::kTextLine.most_bytes + 1, 'x') + "\nd");
  const PreparedDataset data = prepare_all(description());
  const Json& counts = data.text()->facts()["splits"]["train"];
  EXPECT_EQ(counts["lines"], 4);
  EXPECT_EQ(counts["kept"], 2);
  EXPECT_EQ(counts["bad_utf8"], 1);
  EXPECT_EQ(counts["too_long"], 1);
  EXPECT_THAT(lines_.back(), HasSubstr("split 'train' of w has 5 tokens, the official one 11"));
}

TEST_F(PreparedWords, AnEmptyFileIsRefused) {
  test::write_file(data_ / "w/b.txt", "");
  EXPECT_THAT(message_of<UserError>([&] { prepare_all(description()); }), HasSubstr("b.txt is empty"));
  EXPECT_THAT(in_cache(), IsEmpty());
}

TEST_F(PreparedWords, SecondTimeMapsWhatIsThere) {
  const std::string fingerprint = prepare_all(description()).fingerprint();
  EXPECT_EQ(prepare_all(description()).fingerprint(), fingerprint);
  EXPECT_THAT(lines_, IsEmpty());
  EXPECT_EQ(in_cache().size(), 1U);

  DatasetDescription official = description();
  official.fingerprint = fingerprint;
  EXPECT_TRUE(prepare_all(official).official());
  official.fingerprint = std::string(64, '0');
  EXPECT_FALSE(prepare_all(official).official());
  EXPECT_THAT(lines_.back(), HasSubstr("not the official one of w"));
}

TEST_F(PreparedWords, ChangedSourceIsPreparedAnew) {
  const std::string before = prepare_all(description()).fingerprint();
  test::write_file(data_ / "w/b.txt", "a c\n\n");
  EXPECT_NE(prepare_all(description()).fingerprint(), before);
}

// Python's str.split() splits a line at each of these characters.
TEST_F(PreparedWords, AMarkAndOtherWhiteSpaceChangeNothing) {
  const std::string plain = prepare_all(description()).fingerprint();
  test::write_file(data_ / "w/b.txt",
                   "\xEF\xBB\xBF"
                   "a d\n");
  EXPECT_EQ(prepare_all(description()).fingerprint(), plain);
  test::write_file(data_ / "w/a.txt",
                   "\xEF\xBB\xBF \r\n\u00A0b\ta\v\u3000a \n\x1F\na\u2028<unk>\u0085"
                   "b c\f\n");
  EXPECT_EQ(prepare_all(description()).fingerprint(), plain);
}

// Bytes of these letters are code points of white space.
TEST_F(PreparedWords, LettersBeyondAsciiDoNotFallApart) {
  test::write_file(data_ / "w/a.txt", "\u00E0 \u00C5\n");
  const PreparedDataset data = prepare_all(description());
  EXPECT_THAT(data.text()->vocabulary().tokens(), ::testing::IsSupersetOf({"\u00E0", "\u00C5"}));
}

TEST_F(PreparedWords, Utf16IsRefused) {
  std::string wide;
  for (const char c : std::string("a d\n")) wide += {c, '\0'};
  test::write_file(data_ / "w/b.txt", "\xFF\xFE" + wide);
  EXPECT_THAT(message_of<UserError>([&] { prepare_all(description()); }), HasSubstr("b.txt is text in UTF-16"));
  test::write_file(data_ / "w/b.txt", wide);
  EXPECT_THAT(message_of<UserError>([&] { prepare_all(description()); }), HasSubstr("b.txt: byte 2 is zero"));
  EXPECT_THAT(in_cache(), IsEmpty());
}

TEST_F(PreparedWords, DamageIsSeenAndMended) {
  const PreparedDataset whole = prepare_all(description());
  const fs::path folder = whole.text()->folder();
  for (const char* name : {"train.tokens", "vocabulary.txt", "facts.json"}) {
    std::string content = read_file(folder / name);
    content[content.size() / 2] ^= 1;
    test::write_file(folder / name, content);
    EXPECT_EQ(prepare_all(description()).fingerprint(), whole.fingerprint()) << name;
    EXPECT_THAT(lines_.front(), HasSubstr("is made anew")) << name;
    fs::remove(folder / name);
    EXPECT_EQ(prepare_all(description()).fingerprint(), whole.fingerprint()) << name;
  }
}

TEST_F(PreparedWords, WhatAKilledProcessLeftIsReplaced) {
  const auto located = locate(description(), {data_.path().string()});
  const TextPlace place = place_of_text(description(), located, cache_.path());
  EXPECT_FALSE(place.prepared);
  test::write_file(place.folder.string() + ".tmp/train.tokens", "half");
  prepare_all(description());
  EXPECT_TRUE(place_of_text(description(), located, cache_.path()).prepared);
  EXPECT_EQ(in_cache().size(), 1U);
}

TEST_F(PreparedWords, FingerprintFollowsItsDefinition) {
  const PreparedDataset data = prepare_all(description());
  const fs::path folder = data.text()->folder();
  EXPECT_EQ(data.fingerprint(), sha256_hex(read_file(vocabulary_path(folder)) +
                                           CachedTokens(tokens_path(folder, "train", "tokens")).sha256() +
                                           CachedTokens(tokens_path(folder, "test", "tokens")).sha256()));
}

TEST(WikiText2, HasThePublishedCounts) {
  const auto folder = environment_variable("MLBENCH_DATA_DIR");
  const DatasetDescription& description = find_description("wikitext2");
  if (!folder || !search(description, {*folder}).found) {
    GTEST_SKIP() << "missing capability: wikitext-2 in MLBENCH_DATA_DIR";
  }
  const TemporaryFolder cache;
  const PreparedDataset data = prepare(description, {*folder}, cache.path(), {});
  EXPECT_EQ(data.split("train").column<TokenColumn>("tokens").elements.size(), 2'088'628U);
  EXPECT_EQ(data.split("test").column<TokenColumn>("tokens").elements.size(), 217'646U);
  EXPECT_EQ(data.split("unused").column<TokenColumn>("tokens").elements.size(), 245'569U);
  EXPECT_EQ(data.text()->vocabulary().tokens().size(), 33'278U);
  EXPECT_TRUE(data.official()) << data.fingerprint();
}

// ---- pairs ----------------------------------------------------------------------------------------------------------

class PreparedPairs : public PreparedTexts {
 protected:
  void SetUp() override {
    if (!fs::exists(pieces_program())) GTEST_SKIP() << "missing capability: mlbench-pieces (SentencePiece)";
    write("train", train_en_, train_de_);
    write("eval", "A dog.\n\nThe \xFF dog\n", "\u201EEin\u201C Hund.\nLeer\nDer Hund\n");
  }
  void write(const std::string& name, const std::string& en, const std::string& de) {
    test::write_file(data_ / ("p/" + name + ".en"), en);
    test::write_file(data_ / ("p/" + name + ".de"), de);
  }
  static DatasetDescription description(const std::string& rules = "") {
    return parse_description("p.toml",
                             "name = \"p\"\ntitle = \"P\"\nformat = \"pairs\"\nclasses = 64\nfolder = \"p\"\n[text]\n"
                             "source_language = \"en\"\ntarget_language = \"de\"\npieces = 60\n" +
                                 rules +
                                 "[[split]]\nname = \"test\"\nsamples = 3\n[[split.file]]\npattern = \"eval.en\"\n"
                                 "[[split.file]]\npattern = \"eval.de\"\n"
                                 "[[split]]\nname = \"train\"\nsamples = 3\n[[split.file]]\npattern = \"train.en\"\n"
                                 "[[split.file]]\npattern = \"train.de\"\n");
  }
  static std::string text_of(const PreparedDataset& data, const std::string& split, const std::string& column,
                             int64_t number) {
    const auto ids = data.split(split).column<TokenColumn>(column).record(number);
    return data.text()->vocabulary().text(std::vector<int64_t>(ids.begin(), ids.end()),
                                          column == "source" ? Side::kSource : Side::kTarget);
  }

  const std::string train_en_ = "A dog doesn't bark.\nThe \"old\" dog, and the dog.\nHello!\n";
  const std::string train_de_ = "Ein Hund bellt nicht.\nDer \"alte\" Hund und der Hund.\nHallo!\n";
};

TEST_F(PreparedPairs, AreTokenizedIntoPiecesAndBack) {
  const PreparedDataset data = prepare_all(description());
  EXPECT_EQ(data.split("train").samples, 3);
  EXPECT_EQ(text_of(data, "train", "source", 0), "A dog doesn't bark.");
  EXPECT_EQ(text_of(data, "train", "source", 1), "The \"old\" dog, and the dog.");
  EXPECT_EQ(text_of(data, "train", "target", 1), "Der \"alte\" Hund und der Hund.");
  const auto ids = data.split("train").column<TokenColumn>("target").record(0);
  EXPECT_TRUE(std::ranges::none_of(ids, [](int32_t id) { return id == kBegin || id == kEnd || id == kPad; }));
  EXPECT_TRUE(fs::exists(data.text()->folder() / "pieces.model"));
  EXPECT_FALSE(fs::exists(data.text()->folder() / "kept.source"));
}

TEST_F(PreparedPairs, AllThatIsEvaluatedIsKept) {
  const PreparedDataset data = prepare_all(description());
  EXPECT_EQ(data.split("test").samples, 3);
  EXPECT_EQ(data.split("test").column<TokenColumn>("source").length(1), 0);
  EXPECT_THAT(data.text()->references("test"), ElementsAre("\u201EEin\u201C Hund.", "Leer", "Der Hund"));
  EXPECT_EQ(data.text()->facts()["splits"]["test"]["bad_utf8"], 1);
  EXPECT_THAT(message_of<UserError>([&] { data.text()->references("train"); }), HasSubstr("'train'"));
}

TEST_F(PreparedPairs, TrainingPairsAreCleanedAndCounted) {
  const std::string longer(inputs::kTextLine.most_bytes + 1, 'x');
  write("train", train_en_ + "\nbad \xC3(\n" + longer + "\na b c d e f g h i j\n\u4EAC\n",
        train_de_ + "leer\nschlecht\nlang\na\nb\n");
  const PreparedDataset data = prepare_all(description("latin1 = true\n"));
  const Json& counts = data.text()->facts()["splits"]["train"];
  EXPECT_EQ(counts["lines"], 8);
  EXPECT_EQ(counts["kept"], 3);
  for (const char* reason : {"empty", "bad_utf8", "too_long", "ratio", "script"})
    EXPECT_EQ(counts[reason], 1) << reason;
  EXPECT_EQ(data.split("train").samples, 3);
}

TEST_F(PreparedPairs, RefusalsLeaveNothing) {
  write("train", "a\nb\n", "a\n");
  EXPECT_THAT(message_of<UserError>([&] { prepare_all(description()); }), HasSubstr("as many in both"));
  write("train", "\n\n", "a\nb\n");
  EXPECT_THAT(message_of<UserError>([&] { prepare_all(description()); }),
              AllOf(HasSubstr("none of the 2 training pairs of p is kept"), HasSubstr("\"empty\":2")));
  write("train", train_en_, train_de_);
  write("eval", std::string(inputs::kTextLine.most_bytes + 1, 'x') + "\n", "a\n");
  EXPECT_THAT(message_of<UserError>([&] { prepare_all(description()); }), HasSubstr("pair 1 of split 'test'"));
  EXPECT_THAT(in_cache(), IsEmpty());
}

TEST_F(PreparedPairs, ADictionaryTakesTextAsItIs) {
  std::string dictionary = "'<pad>_'\n'<EOS>_'\n'dog_'\n'Hund_'\n'. '\n";
  for (const char c : std::string("\\u_;0123456789dogHn. ")) dictionary += "'" + std::string(1, c) + "'\n";
  const std::string rules = "dictionary = \"dict\"\nleast_words = 0\nmost_words = 0\nmost_ratio = 0\n";
  const std::string learned = prepare_all(description(rules)).fingerprint();
  test::write_file(data_ / "p/dict", dictionary);
  write("train", "dog\n\ndog  dog\n", "Hund\nx\nHund\n");
  const PreparedDataset data = prepare_all(description(rules));
  EXPECT_NE(data.fingerprint(), learned);
  EXPECT_EQ(data.split("train").samples, 3) << "empty lines are kept";
  EXPECT_EQ(data.text()->vocabulary().spec().kind, VocabularyKind::kSubwords);
  EXPECT_EQ(text_of(data, "train", "source", 2), "dog  dog");
  EXPECT_EQ(text_of(data, "test", "target", 0), "\u201EEin\u201C Hund.");
}

TEST_F(PreparedPairs, FilesNeedNoDescription) {
  const TextFiles two = describe_files({data_ / "p/train.en", data_ / "p/train.de"}, {.vocabulary = 50});
  EXPECT_EQ(two.description.classes, 56);
  const PreparedDataset data = prepare_text(two.description, two.located, cache_.path(), {});
  EXPECT_EQ(text_of(data, "train", "target", 2), "Hallo!");

  test::write_file(data_ / "p.tsv", "A dog.\tEin Hund.\n");
  const TextFiles table = describe_files({data_ / "p.tsv"}, {.vocabulary = 50});
  EXPECT_EQ(prepare_text(table.description, table.located, cache_.path(), {}).split("train").samples, 1);

  const TextFiles one = describe_files({data_ / "p/train.en"}, {.vocabulary = 50});
  EXPECT_EQ(one.description.format, "words");
  EXPECT_THAT(message_of<UserError>([&] { describe_files({data_ / "none"}, {}); }), HasSubstr("none is no file"));
}

}  // namespace
}  // namespace mlbench::dataset::text
