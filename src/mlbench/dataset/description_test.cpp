#include <gmock/gmock.h>

#include "mlbench/base/errors.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/fetch.h"
#include "mlbench/dataset/locate.h"
#include "mlbench/dataset/test_support.h"

namespace mlbench::dataset {
namespace {

using test::message_of;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::string parse_error(const std::string& text) {
  return message_of<UserError>([&] { parse_description("d.toml", text); });
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Description, EmbeddedOnesAreComplete) {
  EXPECT_THAT(dataset_names(), AllOf(Contains("fashion-mnist"), Contains("mnist")));
  for (const std::string& name : dataset_names()) {
    const DatasetDescription& description = find_description(name);
    EXPECT_EQ(description.name, name);
    const ArchiveSource& archive = description.archive;
    if (!archive.pattern.empty()) {
      EXPECT_THAT(archive.url, AllOf(StartsWith("https://"), EndsWith("/" + archive.pattern + ".gz"))) << name;
      EXPECT_THAT(archive.sha256, SizeIs(64)) << name;
      EXPECT_GT(archive.bytes, 0) << name;
    }
    for (const SplitSpec& split : description.splits) {
      for (const FileSource& file : split.files) {
        if (!archive.pattern.empty()) {
          EXPECT_THAT(file.content_sha256, SizeIs(64)) << name;
        }
        if (file.url.empty()) continue;
        EXPECT_THAT(file.url, StartsWith("https://")) << name;
        EXPECT_THAT(file.url, AnyOf(EndsWith("/" + file.pattern), HasSubstr("/" + file.pattern + ".")))
            << "fetch() keeps the last component: " << name;
        EXPECT_THAT(file.sha256, SizeIs(64)) << name;
        if (description.fingerprint.empty()) continue;  // without it, checksums may be unknown
        EXPECT_THAT(file.content_sha256, SizeIs(64)) << name;
        EXPECT_GT(file.bytes, 0) << name;
      }
    }
  }
  const DatasetDescription& epsilon = find_description("epsilon");
  EXPECT_EQ(epsilon.sample_shape, std::vector<int64_t>{2000});
  EXPECT_EQ(epsilon.classes, 2);
  EXPECT_EQ(epsilon.splits[0].samples, 400000);
  EXPECT_EQ(epsilon.splits[1].samples, 100000);
  const DatasetDescription& fashion = find_description("fashion-mnist");
  EXPECT_EQ(fashion.sample_shape, (std::vector<int64_t>{1, 28, 28}));
  EXPECT_EQ(fashion.classes, 10);
  ASSERT_EQ(fashion.splits.size(), 2U);
  EXPECT_EQ(fashion.splits[0].name, "train");
  EXPECT_EQ(fashion.splits[0].samples, 60000);
  EXPECT_EQ(fashion.splits[1].name, "test");
  EXPECT_EQ(fashion.splits[1].samples, 10000);
}

TEST(Description, DataThatAreOnlyMadeHaveNoFiles) {
  const DatasetDescription& made = find_description("made-images");
  EXPECT_TRUE(made.only_made());
  EXPECT_EQ(made.sample_shape, find_description("fashion-mnist").sample_shape);
  EXPECT_EQ(made.classes, find_description("fashion-mnist").classes);
  EXPECT_FALSE(find_description("fashion-mnist").only_made());
  const SearchResult searched = search(made, {"/"});
  EXPECT_FALSE(searched.found);
  EXPECT_EQ(searched.tried, "");
  const std::string why = "data set made-images has no files, it is only made: run with --synthetic";
  EXPECT_EQ(message_of<UserError>([&] { locate(made, {"/"}); }), why);
  const TemporaryFolder folder;
  EXPECT_EQ(message_of<UserError>([&] { fetch(made, folder.path(), {}); }), why);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THAT(parse_error(replaced(test::tiny_toml(), "folder", "licence")), HasSubstr("folder"));
}

TEST(Description, UnknownNameListsTheValidOnes) {
  EXPECT_THAT(message_of<UserError>([] { find_description("emnist"); }),
              AllOf(HasSubstr("'emnist'"),
                    HasSubstr("fashion-mnist, imagenet-folders, imagenet-tar, imagenet-tfrecord, imagenet, "
                              "made-images, madelon, mnist, multi30k, rcv1, tiny-imagenet-10-tar, tiny-imagenet-10, "
                              "tiny-imagenet, wikitext2, wmt16-mlbench, wmt16")));
}

TEST(Description, ErrorsNameThePlaceTheValueAndWhatIsValid) {
  const std::string good = test::tiny_toml();
  EXPECT_EQ(parse_description("d.toml", good).splits[1].files[1].pattern, "test-labels");

  EXPECT_THAT(parse_error(replaced(good, "title = \"Tiny\"\n", "")), HasSubstr("d.toml:1:1: missing key 'title'"));
  EXPECT_THAT(parse_error(replaced(good, "title", "titel")),
              HasSubstr("d.toml:2:1: unknown key 'titel': did you mean 'title'?"));
  EXPECT_THAT(parse_error(replaced(good, "\"Tiny\"", "\"\"")),
              HasSubstr("d.toml:2:9: 'title' is \"\"; expected a text that is not empty"));
  EXPECT_THAT(parse_error("colour = 1\n" + good),
              AllOf(HasSubstr("d.toml:1:1: unknown key 'colour'"), HasSubstr("classes")));
  EXPECT_THAT(parse_error(replaced(good, "\"idx\"", "\"tfrecord\"")),
              AllOf(HasSubstr("d.toml:3:10"), HasSubstr("'tfrecord'"), HasSubstr("valid: idx")));
  EXPECT_THAT(parse_error(replaced(good, "classes = 3", "classes = 0")),
              AllOf(HasSubstr("d.toml:5:11"), HasSubstr("'classes' is 0; expected a number from 1 to 10000000")));
  for (const char* classes : {"-1", "9000000000000000000", "0x7fffffffffffffff"}) {
    EXPECT_THAT(parse_error(replaced(good, "classes = 3", std::string("classes = ") + classes)),
                HasSubstr("; expected a number from 1 to 10000000"))
        << classes;
  }
  for (const char* classes : {"1e3", "nan", "inf", "\"3\""}) {
    EXPECT_THAT(parse_error(replaced(good, "classes = 3", std::string("classes = ") + classes)),
                AllOf(HasSubstr("d.toml:5:11: 'classes' is "), HasSubstr("; expected an integer")))
        << classes;
  }
  EXPECT_THAT(parse_error(replaced(good, "[1, 4, 5]", "[100000, 100000, 5]")),
              HasSubstr("'sample_shape' is a sample of 5e+10 values; expected at most 1e+09"));
  EXPECT_THAT(parse_error(replaced(good, "[1, 4, 5]", "[]")),
              HasSubstr("'sample_shape' is []; expected a list that is not empty"));
  EXPECT_THAT(parse_error(replaced(good, "classes = 3", "classes = 3\nfingerprint = \"abc\"")),
              AllOf(HasSubstr("d.toml:6:15"), HasSubstr("'abc'"), HasSubstr("64 lower-case")));
  EXPECT_THAT(parse_error(replaced(good, "pattern = \"train-images\"", "pattern = \"../secret\"")),
              HasSubstr("without '..'"));
  EXPECT_THAT(parse_error(replaced(good, "pattern = \"train-images\"", "pattern = \"x\"\nmd5 = \"0\"")),
              AllOf(HasSubstr("unknown key 'split.0.file.0.md5'; "), HasSubstr("content_sha256")));
  EXPECT_THAT(parse_error(replaced(good, "[[split.file]]\npattern = \"train-labels\"\n", "")),
              AllOf(HasSubstr("split 'train' has 1 files"), HasSubstr("expects 2")));
  EXPECT_THAT(parse_error(replaced(good, "name = \"test\"", "name = \"train\"")), HasSubstr("'train' is there twice"));
  EXPECT_THAT(parse_error("name = "), HasSubstr("d.toml:1:"));
}

TEST(Description, OfText) {
  const std::string good =
      "name = \"t\"\ntitle = \"T\"\nformat = \"pairs\"\nclasses = 32\nfolder = \"t\"\n[text]\n"
      "source_language = \"en\"\ntarget_language = \"de\"\npieces = 30\nmost_words = 0\nlatin1 = true\n"
      "[[split]]\nname = \"train\"\nsamples = 1\n[[split.file]]\npattern = \"a\"\n[[split.file]]\npattern = \"b\"\n";
  const DatasetDescription text = parse_description("t.toml", good);
  EXPECT_EQ(text.text.pieces, 30);
  EXPECT_EQ(text.text.cleaning.most_words, 0);
  EXPECT_EQ(text.text.cleaning.least_words, 1);
  EXPECT_TRUE(text.text.cleaning.latin1);
  EXPECT_THAT(parse_error(replaced(good, "classes", "sample_shape = [1]\nclasses")),
              HasSubstr("of text, which has no 'sample_shape'"));
  EXPECT_THAT(parse_error(replaced(good, "pieces = 30", "pieces = 33")), HasSubstr("33 pieces do not fit"));
  EXPECT_THAT(parse_error(replaced(good, "source_language = \"en\"\n", "")), HasSubstr("go together"));
  EXPECT_THAT(parse_error(replaced(good, "source_language = \"en\"\ntarget_language = \"de\"\n", "")),
              AllOf(HasSubstr("format pairs needs 'source_language'"), HasSubstr("en, de")));
  EXPECT_THAT(parse_error(replaced(good, "[text]", "[archive]\npattern = \"a.tar\"\n[text]")),
              HasSubstr("not read from an archive"));
}

}  // namespace
}  // namespace mlbench::dataset
