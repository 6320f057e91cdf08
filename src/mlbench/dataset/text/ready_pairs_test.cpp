// The output of MLBench's own preparation, written here as MLBench writes it.

#include <gmock/gmock.h>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/dataset/prepare.h"
#include "mlbench/dataset/test_support.h"
#include "mlbench/dataset/text/prepared_text.h"

namespace mlbench::dataset::text {
namespace {

using test::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::string bytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::string file_table(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += "[[split.file]]\npattern = \"" + name + "\"\n";
  return text;
}

std::vector<int32_t> record(const PreparedDataset& data, const std::string& split, const std::string& column,
                            int64_t number) {
  const auto ids = data.split(split).column<TokenColumn>(column).record(number);
  return {ids.begin(), ids.end()};
}

class ReadyPairs : public ::testing::Test {
 protected:
  PreparedDataset prepare_all(const DatasetDescription& description) {
    return prepare(description, {data_.path().string()}, cache_.path(), {});
  }
  std::string refusal(const DatasetDescription& description) {
    return message_of<UserError>([&] { prepare_all(description); });
  }
  TemporaryFolder data_, cache_;
};

class MarkedPairs : public ReadyPairs {
 protected:
  static DatasetDescription description() {
    return parse_description("m.toml",
                             "name = \"m\"\ntitle = \"M\"\nformat = \"marked-pairs\"\nclasses = 8\nfolder = \"m\"\n"
                             "[text]\nsource_language = \"en\"\ntarget_language = \"de\"\ndictionary = \"vocab\"\n"
                             "[[split]]\nname = \"train\"\nsamples = 2\n" +
                                 file_table({"train.bin"}) + "[[split]]\nname = \"test\"\nsamples = 2\n" +
                                 file_table({"t.en", "t.de", "raw.de"}));
  }
  void write(const std::vector<int64_t>& head, const std::vector<int16_t>& ids) {
    test::write_file(data_ / "m/vocab", "a\nHun@@\nde\n");
    test::write_file(data_ / "m/train.bin", bytes(head) + bytes(ids));
    test::write_file(data_ / "m/t.en", "a a\nx\n");
    test::write_file(data_ / "m/t.de", "Hun@@ de\na\n");
    test::write_file(data_ / "m/raw.de", "Hunde\nA\n");
  }
  // pairs, vocabulary, shortest, longest, lengths of sources and targets, the place of the pairs
  const std::vector<int64_t> head_ = {2, 8, 0, 4, 3, 4, 4, 2, 72};
  const std::vector<int16_t> ids_ = {2, 4, 3, 0, 2, 5, 6, 3, 2, 4, 4, 3, 2, 3, 0, 0};
};

TEST_F(MarkedPairs, AreReadWithoutBeginAndEnd) {
  write(head_, ids_);
  const PreparedDataset data = prepare_all(description());
  EXPECT_EQ(data.split("train").samples, 2);
  EXPECT_THAT(record(data, "train", "source", 0), ElementsAre(4));
  EXPECT_THAT(record(data, "train", "target", 0), ElementsAre(5, 6));
  EXPECT_THAT(record(data, "train", "source", 1), ElementsAre(4, 4));
  EXPECT_THAT(record(data, "train", "target", 1), ElementsAre());
  EXPECT_THAT(record(data, "test", "source", 1), ElementsAre(kUnknown));
  EXPECT_THAT(record(data, "test", "target", 0), ElementsAre(5, 6));
  EXPECT_THAT(data.text()->references("test"), ElementsAre("Hunde", "A"));
  EXPECT_EQ(data.text()->vocabulary().text(std::vector<int64_t>{5, 6}), "Hunde");
}

TEST_F(MarkedPairs, DamageIsNamed) {
  auto head = head_;
  head[3] = 1'000'000'000;
  write(head, ids_);
  EXPECT_THAT(refusal(description()), HasSubstr("train.bin: 2 pairs of up to 1000000000 tokens"));
  head = head_;
  head[0] = 1'000'000;
  write(head, ids_);
  EXPECT_THAT(refusal(description()), HasSubstr("train.bin: truncated"));
  head = head_;
  head[4] = 5;
  write(head, ids_);
  EXPECT_THAT(refusal(description()), HasSubstr("pair 0 has a side of 5 tokens, expected 0 to 4"));
  auto ids = ids_;
  ids[1] = 8;
  write(head_, ids);
  EXPECT_THAT(refusal(description()), HasSubstr("pair 0 has id 8, expected 0 to 7"));
  write(head_, ids_);
  std::filesystem::remove(data_ / "m/vocab");
  EXPECT_THAT(refusal(description()), HasSubstr("vocab is not beside the files of m"));
}

TEST_F(MarkedPairs, WithoutRawTargetsTheTokensAreTheReferences) {
  write(head_, ids_);
  DatasetDescription text_alone = description();
  text_alone.splits[1].files.pop_back();
  EXPECT_THAT(prepare_all(text_alone).text()->references("test"), ElementsAre("Hunde", "a"));
}

class IndexedPairs : public ReadyPairs {
 protected:
  static DatasetDescription description() {
    const auto files = [](const std::string& split) {
      return std::vector<std::string>{split + ".en.idx", split + ".en.bin", split + ".de.idx", split + ".de.bin"};
    };
    return parse_description("i.toml",
                             "name = \"i\"\ntitle = \"I\"\nformat = \"indexed-pairs\"\nclasses = 24\nfolder = \"i\"\n"
                             "[text]\ndictionary = \"dict\"\n[[split]]\nname = \"train\"\nsamples = 2\n" +
                                 file_table(files("train")) + "[[split]]\nname = \"test\"\nsamples = 1\n" +
                                 file_table(files("test")));
  }
  void write_side(const std::string& name, const std::vector<std::vector<int32_t>>& records) {
    std::vector<int64_t> dimensions = {0}, offsets = {0}, sizes;
    std::string ids;
    for (const auto& one : records) {
      dimensions.push_back(dimensions.back() + 1);
      offsets.push_back(offsets.back() + std::ssize(one));
      sizes.push_back(std::ssize(one));
      ids += bytes(one);
    }
    const std::vector<int64_t> head = {1, 4, 4, std::ssize(records), std::ssize(records)};
    test::write_file(data_ / ("i/" + name + ".idx"),
                     std::string("TNTIDX\0\0", 8) + bytes(head) + bytes(dimensions) + bytes(offsets) + bytes(sizes));
    test::write_file(data_ / ("i/" + name + ".bin"), ids);
  }
  void SetUp() override {
    std::string dictionary = "'<pad>_'\n'<EOS>_'\n'the_'\n'dog_'\n";
    for (const char* one : {"\\", "u", "_", ";", "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}) {
      dictionary += "'" + std::string(one) + "'\n";
    }
    test::write_file(data_ / "i/dict", dictionary);
    write_side("train.en", {{3, 4, 2}, {2}});
    write_side("train.de", {{4, 2}, {3, 3, 2}});
    write_side("test.en", {{3, 2}});
    write_side("test.de", {{3, 4, 2}});
  }
};

TEST_F(IndexedPairs, AreReadInOurIds) {
  const PreparedDataset data = prepare_all(description());
  EXPECT_THAT(record(data, "train", "source", 0), ElementsAre(4, 5));
  EXPECT_THAT(record(data, "train", "source", 1), ElementsAre());
  EXPECT_THAT(record(data, "train", "target", 1), ElementsAre(4, 4));
  EXPECT_THAT(record(data, "test", "target", 0), ElementsAre(4, 5));
  EXPECT_THAT(data.text()->references("test"), ElementsAre("the dog"));
}

TEST_F(IndexedPairs, DamageIsNamed) {
  write_side("train.de", {{4, 2}});
  EXPECT_THAT(refusal(description()), AllOf(HasSubstr("has 2 records"), HasSubstr("has 1: expected as many")));
  write_side("train.de", {{4, 2}, {99, 2}});
  EXPECT_THAT(refusal(description()), HasSubstr("record 1 has id 99, expected 0 to 18"));
  test::write_file(data_ / "i/train.de.idx", "TNTIDX??and more of it");
  EXPECT_THAT(refusal(description()), HasSubstr("no TorchNet index"));
  test::write_file(data_ / "i/train.de.idx", "TNT");
  EXPECT_THAT(refusal(description()), HasSubstr("truncated"));
}

}  // namespace
}  // namespace mlbench::dataset::text
