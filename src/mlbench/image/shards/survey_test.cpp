#include "mlbench/image/shards/survey.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "mlbench/base/test_error.h"
#include "mlbench/image/shards/made_folders_test.h"
#include "mlbench/tfrecord/records.h"

namespace mlbench::image {
namespace {

namespace fs = std::filesystem;
using test::put;
using test::shard_folder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Surveyed {
  Surveyed() { test::make_folder_of_images(root); }
  fs::path shards(ContainerFormat format, int64_t count) const {
    const fs::path output = scratch / fmt::format("{}-{}", row_of(format).name, count);
    shard_folder(root, output, {format, count});
    return output;
  }
  TemporaryFolder scratch;
  fs::path root = scratch / "train";
};

Survey survey_of(const ContainerRequest& request, const SurveyOptions& options = {}) {
  return survey(find_container(request), options);
}

// The kinds of 23 images: every eleventh is grey, CMYK or YCCK, unless it is a PNG.
TEST(Survey, SaysTheSameOfAFolderAndItsShards) {
  const Surveyed made;
  const Survey folder = survey_of({.paths = {made.root}});
  EXPECT_EQ(folder.format, ContainerFormat::kFolder);
  EXPECT_EQ(folder.samples, 23);
  EXPECT_EQ(folder.labels, 3);
  EXPECT_EQ(folder.classes_found, 3);
  EXPECT_EQ(folder.bad, 0);
  EXPECT_EQ(folder.smallest, std::ssize(test::small_png()) + 3);
  EXPECT_LT(folder.median, folder.largest);
  EXPECT_EQ(folder.kinds,
            (ImageKinds{.colour_jpeg = 16, .grey_jpeg = 1, .cmyk_jpeg = 3, .png = 3, .png_named_jpeg = 3}));
  for (const ContainerFormat format : {ContainerFormat::kTar, ContainerFormat::kTfrecord}) {
    for (const int threads : {1, 3}) {
      Survey shards = survey_of({.paths = {made.shards(format, threads)}}, {.decode = true, .threads = threads});
      EXPECT_EQ(shards.shards, threads);
      EXPECT_EQ(shards.bad, 0);
      if (format == ContainerFormat::kTar) shards.kinds.png_named_jpeg = 3;  // keys have no ending
      EXPECT_EQ(shards.kinds, folder.kinds);
      EXPECT_EQ(shards.image_bytes, folder.image_bytes);
      EXPECT_EQ(shards.median, folder.median);
      EXPECT_EQ(shards.largest, folder.largest);
      EXPECT_EQ(shards.labels, 3);
    }
  }
}

TEST(Survey, ForeignShardsNeedNoManifest) {
  const Surveyed made;
  for (const ContainerFormat format : {ContainerFormat::kTar, ContainerFormat::kTfrecord}) {
    const fs::path folder = made.shards(format, 2);
    fs::remove(folder / kManifestFile);
    fs::remove(folder / kClassesFile);
    put(folder / "README", "words");
    const Survey found = survey_of({.paths = {folder}});
    EXPECT_EQ(found.format, format);
    EXPECT_EQ(found.samples, 23);
    EXPECT_EQ(found.labels, 3) << "one more than the largest";
    EXPECT_THAT(found.ignored, ElementsAre("README"));
    EXPECT_EQ(survey_of({.paths = {folder}, .labels = 10}).labels, 10);
    EXPECT_EQ(survey_of({.paths = {folder}, .labels = 2}).bad, 2) << "a shard with a label out of range is refused";
  }
}

TEST(Survey, RecordsMayBeginAtLabelZero) {
  const Surveyed made;
  const fs::path folder = made.shards(ContainerFormat::kTfrecord, 1);
  const ContainerRequest shard{.paths = {folder / "train-00000-of-00001"}, .first_label = 0};
  EXPECT_EQ(survey_of(shard).labels, 4) << "labels 1 to 3";
}

TEST(Survey, CountsAndNamesWhatDoesNotDecode) {
  const Surveyed made;
  const std::string jpeg = test::patterned_jpeg(test::jpeg_kinds()[0], {64, 64});
  put(made.root / "n01/short.jpg", jpeg.substr(0, jpeg.size() - 20));
  put(made.root / "n02/gif.jpg", "GIF89a");
  for (const int threads : {1, 2, 5}) {
    const Survey headers = survey_of({.paths = {made.root}}, {.threads = threads});
    EXPECT_EQ(headers.bad, 1);
    EXPECT_EQ(headers.kinds.unreadable, 1);
    const Survey decoded = survey_of({.paths = {made.root}}, {.decode = true, .threads = threads});
    EXPECT_EQ(decoded.bad, 2);
    EXPECT_EQ(decoded.samples, 25);
    ASSERT_EQ(decoded.problems.size(), 2U);
    EXPECT_EQ(decoded.problems[0].key, "n01/short.jpg");
    EXPECT_EQ(decoded.problems[0].reason, "damaged image: the file is truncated: its pixels have no end");
    EXPECT_EQ(decoded.problems[1].key, "n02/gif.jpg");
    EXPECT_EQ(decoded.problems[1].reason, "looks like GIF, expected a JPEG or PNG file");
  }
  EXPECT_EQ(survey_of({.paths = {made.root}}, {.decode = true, .most_named = 1}).problems.size(), 1U);
}

// The header of an image may lie behind a profile of any length.
TEST(Survey, FindsAHeaderBehindALongProfile) {
  const TemporaryFolder scratch;
  const std::string jpeg = test::patterned_jpeg({.name = "grey", .components = 1}, {64, 64});
  const std::string profile = std::string("\xFF\xE2\xFF\xFF", 4) + std::string(0xFFFD, 'p');
  put(scratch / "in/a/x.jpg", jpeg.substr(0, 2) + profile + jpeg.substr(2));
  const Survey found = survey_of({.paths = {scratch / "in"}});
  EXPECT_EQ(found.kinds, (ImageKinds{.grey_jpeg = 1}));
  EXPECT_EQ(found.bad, 0);
}

TEST(Survey, ADamagedShardIsOneProblem) {
  const Surveyed made;
  const fs::path folder = made.shards(ContainerFormat::kTfrecord, 3), shard = folder / "train-00001-of-00003";
  std::string content = read_file(shard);
  content[content.size() / 2] ^= 1;
  put(shard, content);
  const Survey found = survey_of({.paths = {folder}});
  EXPECT_EQ(found.bad, 1);
  EXPECT_EQ(found.samples, 15);
  EXPECT_EQ(found.problems[0].shard, "train-00001-of-00003");
  EXPECT_EQ(found.problems[0].key, "");
  EXPECT_THAT(found.problems[0].reason, AllOf(HasSubstr("record at byte"), HasSubstr("checksum")));
}

TEST(Survey, AnAbsentShardIsNamed) {
  const Surveyed made;
  const fs::path folder = made.shards(ContainerFormat::kTar, 3);
  fs::remove(folder / "train-00001-of-00003.tar");
  for (const bool manifest : {true, false}) {
    if (!manifest) fs::remove(folder / kManifestFile);
    const Survey found = survey_of({.paths = {folder}});
    EXPECT_EQ(found.bad, 1);
    EXPECT_EQ(found.problems[0].shard, "train-00001-of-00003.tar");
    EXPECT_EQ(found.problems[0].reason, "is absent");
  }
}

// A byte of an image changes nothing that an index of a tar file sees, and perhaps nothing that a decoder sees.
TEST(Survey, ChecksumsOfTheManifestAreCompared) {
  const Surveyed made;
  const fs::path folder = made.shards(ContainerFormat::kTar, 1), shard = folder / "train-00000-of-00001.tar";
  std::string content = read_file(shard);
  content[content.find("JFIF") + 5] ^= 1;
  put(shard, content);
  EXPECT_EQ(survey_of({.paths = {folder}}).bad, 0);
  const Survey found = survey_of({.paths = {folder}}, {.decode = true});
  EXPECT_EQ(found.bad, 1);
  EXPECT_THAT(found.problems[0].reason, HasSubstr("its SHA-256 is not the one in shards.json"));
  EXPECT_EQ(found.samples, 23) << "its samples count all the same";
}

TEST(Container, IsFoundOutOrRefused) {
  const Surveyed made;
  const fs::path tar = made.shards(ContainerFormat::kTar, 1), records = made.shards(ContainerFormat::kTfrecord, 1);
  const auto error = [](const ContainerRequest& request) { return error_of([&] { find_container(request); }); };
  EXPECT_THAT(error({.paths = {"/no/such"}}), HasSubstr("/no/such: no such file or folder"));
  EXPECT_THAT(error({.paths = {tar, records}}), HasSubstr("is a folder, expected one folder or files alone"));
  const fs::path one = tar / "train-00000-of-00001.tar", other = records / "train-00000-of-00001";
  EXPECT_THAT(error({.paths = {one, other}}), HasSubstr("tar files beside records"));
  EXPECT_THAT(error({.paths = {tar / kClassesFile}}), HasSubstr("neither a tar file nor TensorFlow's records"));
  EXPECT_THAT(error({.paths = {tar}, .format = ContainerFormat::kTfrecord}), HasSubstr("--format tfrecord: "));
  EXPECT_THAT(error({.paths = {made.root}, .labels = 3}), HasSubstr("--labels: is for tar files and records"));
  EXPECT_THAT(error({.paths = {tar}, .first_label = 0}), HasSubstr("--first-label: is for records alone"));
  EXPECT_THAT(error({.paths = {tar}, .labels = 2}), HasSubstr("--labels 2: there are 3 classes"));
  fs::copy(other, tar / "x.tfrecord");
  fs::remove(tar / kManifestFile);
  EXPECT_THAT(error({.paths = {tar}}), HasSubstr("holds tar files and records: choose one by --format"));
  EXPECT_EQ(find_container({.paths = {tar}, .format = ContainerFormat::kTar}).shards, std::vector<fs::path>{one});
  put(made.scratch / "flat/x.jpg", test::small_png());
  EXPECT_THAT(error({.paths = {made.scratch / "flat"}}), HasSubstr("want their labels by --list FILE"));
}

TEST(Container, TakesAListWithItsOwnClasses) {
  const TemporaryFolder scratch;
  put(scratch / "val/a.jpg", test::small_png());
  put(scratch / "val/b.jpg", test::small_png());
  put(scratch / "names.txt", "a.jpg n02\nb.jpg n01\n");
  put(scratch / "numbers.txt", "a.jpg 10\nb.jpg 2\n");
  put(scratch / "classes.txt", "n00\nn01\nn02\n");
  ContainerRequest request{.paths = {scratch / "val"}, .list = scratch / "names.txt"};
  EXPECT_THAT(find_container(request).classes, ElementsAre("n01", "n02"));
  EXPECT_EQ(index_of(find_container(request)).samples[0].label, 1);
  request.classes = scratch / "classes.txt";
  EXPECT_EQ(index_of(find_container(request)).samples[0].label, 2);
  const Container numbers = find_container({.paths = {scratch / "val"}, .list = scratch / "numbers.txt"});
  EXPECT_EQ(numbers.classes.size(), 11U);
  EXPECT_EQ(index_of(numbers).samples[0].label, 10);
  put(scratch / "numbers.txt", "a.jpg 99999999999\n");
  EXPECT_THAT(error_of([&] { classes_of_list(scratch / "numbers.txt"); }), HasSubstr("expected 0 to 999999"));
}

}  // namespace
}  // namespace mlbench::image
