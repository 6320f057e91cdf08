#include <gmock/gmock.h>

#include "mlbench/base/test_error.h"
#include "mlbench/image/index/example.pb.h"
#include "mlbench/image/index/sample_index.h"
#include "mlbench/tfrecord/records.h"

namespace mlbench::image {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

tensorflow::Example example(const std::string& image, int64_t label, const std::string& name) {
  tensorflow::Example made;
  auto& features = *made.mutable_features()->mutable_feature();
  features["image/encoded"].mutable_bytes_list()->add_value(image);
  features["image/class/label"].mutable_int64_list()->add_value(label);
  features["image/width"].mutable_int64_list()->add_value(500);
  if (!name.empty()) features["image/filename"].mutable_bytes_list()->add_value(name);
  return made;
}

struct RecordShard {
  explicit RecordShard(const std::vector<tensorflow::Example>& examples) {
    std::string content;
    for (const tensorflow::Example& one : examples) tfrecord::append_record(content, one.SerializeAsString());
    write_file_atomically(path, content);
  }
  TemporaryFolder folder;
  fs::path path = folder / "train-00000-of-00001";
};

std::string error_of_examples(const std::vector<tensorflow::Example>& examples, int64_t labels = 1000) {
  const RecordShard shard(examples);
  return error_of([&] { index_example_records({shard.path}, labels, 1); });
}

TEST(ExampleRecords, ImagesLieWhereTheIndexSays) {
  const RecordShard shard({example("first image", 1, "n01_1.JPEG"), example(std::string(5000, 'x'), 1000, "")});
  const SampleIndex index = index_example_records({shard.path}, 1000, 1);
  ASSERT_EQ(index.samples.size(), 2U);
  EXPECT_EQ(index.samples[0].key, "n01_1.JPEG");
  EXPECT_EQ(index.samples[0].label, 0);
  EXPECT_EQ(index.samples[1].label, 999);
  EXPECT_THAT(index.samples[1].key, HasSubstr("record-"));
  const SampleFiles files(index);
  std::vector<std::byte> bytes;
  files.read(index.samples[0], bytes);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "first image");
  files.read(index.samples[1], bytes);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), std::string(5000, 'x'));
}

// The beginning of the image stands elsewhere in the record, too.
TEST(ExampleRecords, AnImageIsFoundBehindTextsThatBeginLikeIt) {
  const std::string image = std::string(40, 'j') + "the image";
  tensorflow::Example odd = example(image, 1, std::string(40, 'j') + ".JPEG");
  (*odd.mutable_features()->mutable_feature())["a"].mutable_bytes_list()->add_value(std::string(60, 'j'));
  const RecordShard shard({odd});
  const SampleIndex index = index_example_records({shard.path}, 10, 1);
  std::vector<std::byte> bytes;
  SampleFiles(index).read(index.samples[0], bytes);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), image);
}

TEST(ExampleRecords, LabelsMayBeginAtZero) {
  const RecordShard shard({example("a", 0, "a"), example("b", 9, "b")});
  const SampleIndex index = index_example_records({shard.path}, 10, 0);
  EXPECT_EQ(index.samples[0].label, 0);
  EXPECT_EQ(index.samples[1].label, 9);
}

// A message written by hand: two entries of 24 and 26 bytes, the second with a packed list of the number 5.
TEST(ExampleRecords, ReadsTheFormatOfTensorflow) {
  const std::string message =
      "\x0A\x36"
      "\x0A\x18\x0A\x0D"
      "image/encoded"
      "\x12\x07\x0A\x05\x0A\x03"
      "abc"
      "\x0A\x1A\x0A\x11"
      "image/class/label"
      "\x12\x05\x1A\x03\x0A\x01\x05";
  std::string content;
  tfrecord::append_record(content, message);
  const TemporaryFolder folder;
  write_file_atomically(folder / "x", content);
  const SampleIndex index = index_example_records({folder / "x"}, 10, 1);
  ASSERT_EQ(index.samples.size(), 1U);
  EXPECT_EQ(index.samples[0].label, 4);
  EXPECT_EQ(index.samples[0].length, 3);
  EXPECT_EQ(index.samples[0].offset, static_cast<int64_t>(content.find("abc")));
}

// The library says nothing of its own about what a stranger wrote.
TEST(ExampleRecords, OtherFeaturesMayHaveAnyName) {
  tensorflow::Example odd = example("a", 1, "a");
  (*odd.mutable_features()->mutable_feature())["\xFF\n"].mutable_float_list()->add_value(1);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(error_of_examples({odd}), "no error");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST(ExampleRecords, RefusesWhatIsNoImageWithALabel) {
  EXPECT_THAT(error_of_examples({example("a", 0, "a")}), HasSubstr("label 0, expected 1 to 1000"));
  EXPECT_THAT(error_of_examples({example("a", 1001, "a")}), HasSubstr("label 1001, expected 1 to 1000"));
  EXPECT_THAT(error_of_examples({example("a", INT64_MIN, "a")}), HasSubstr("expected 1 to 1000"));
  EXPECT_THAT(error_of_examples({example("", 1, "a")}), HasSubstr("has no image/encoded of one text"));
  EXPECT_THAT(error_of_examples({example("a", 1, "../a")}), HasSubstr("'../a': a path that leaves its folder"));
  EXPECT_THAT(error_of_examples({example("a", 1, "a\nb")}), HasSubstr("control character"));
  tensorflow::Example two = example("a", 1, "a");
  (*two.mutable_features()->mutable_feature())["image/class/label"].mutable_int64_list()->add_value(2);
  EXPECT_THAT(error_of_examples({two}), HasSubstr("has no image/class/label of one number"));
  (*two.mutable_features()->mutable_feature())["image/class/label"].mutable_bytes_list()->add_value("1");
  EXPECT_THAT(error_of_examples({two}), HasSubstr("has no image/class/label of one number"));
  EXPECT_THAT(error_of_examples({}), HasSubstr("hold no records"));
  std::string content;
  tfrecord::append_record(content, "\xFF\xFF no message");
  const TemporaryFolder folder;
  write_file_atomically(folder / "x", content);
  EXPECT_THAT(error_of([&] { index_example_records({folder / "x"}, 10, 1); }), HasSubstr("no tf.train.Example"));
}

}  // namespace
}  // namespace mlbench::image
