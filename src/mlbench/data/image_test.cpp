// Needs <cstdio> and <cstdlib>.
#include "mlbench/image/images_test.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <optional>
#include <set>

#include "mlbench/base/errors.h"
#include "mlbench/data/workload.h"
#include "mlbench/dataset/prepare.h"
#include "mlbench/image/crop.h"
#include "mlbench/image/index/tar_test.h"
#include "mlbench/objects/fake_store_test.h"
#include "mlbench/spec/task.h"

namespace mlbench::data {
namespace {

namespace fs = std::filesystem;
using image::test::jpeg_kinds;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string jpeg(int number, const image::Size& size) {
  return image::test::patterned_jpeg(jpeg_kinds()[static_cast<size_t>(number) % jpeg_kinds().size()], size);
}

void write(const fs::path& file, const std::string& content) {
  fs::create_directories(file.parent_path());
  write_file_atomically(file, content);
}

// Twelve images of two classes, each of another size, or all of 20 x 20; four of them for evaluation.
struct Photos {
  explicit Photos(bool equal_sizes = false) {
    for (int i = 0; i < 12; ++i) {
      const image::Size size = equal_sizes ? image::Size{20, 20} : image::Size{23 + 5 * i, 60 - 3 * i};
      write(folder / fmt::format("dots/{}/{}/{:02}.jpg", i % 3 == 2 ? "val" : "train", i % 2 == 0 ? "cats" : "dogs", i),
            jpeg(i, size));
    }
    prepare();
  }
  void prepare() {
    const std::string split = "container = \"folder\"\n[[split.file]]\npattern = ";
    const auto description = dataset::parse_description(
        "dots.toml",
        "name = \"dots\"\ntitle = \"Dots\"\nformat = \"images\"\nsample_shape = [3, 20, 20]\nclasses = 2\nfolder = "
        "\"dots\"\n[[split]]\nname = \"train\"\nsamples = 8\n" +
            split + "\"train\"\n[[split]]\nname = \"test\"\nsamples = 4\n" + split + "\"val\"\n");
    data.emplace(dataset::prepare(description, {folder.path()}, folder / "cache", {}));
  }
  fs::path first() const { return folder / "dots/train/cats/00.jpg"; }

  TemporaryFolder folder;
  std::optional<dataset::PreparedDataset> data;
};

spec::TaskSpec task_of(std::vector<std::string> train, std::vector<std::string> eval) {
  spec::TaskSpec task;
  task.batch_size = 3;
  task.data.sample_shape = {3, 20, 20};
  task.data.classes = 2;
  task.data.train_transform = std::move(train);
  task.data.eval_transform = std::move(eval);
  task.data.mean = {0.485, 0.456, 0.406};
  task.data.stddev = {0.229, 0.224, 0.225};
  return task;
}
spec::TaskSpec crops() {
  return task_of({"random_resized_crop", "scale_255", "normalise"}, {"resize_center_crop", "scale_255", "normalise"});
}
spec::TaskSpec whole_images() {
  spec::TaskSpec task = task_of({"pad_crop_flip", "scale_255", "normalise"}, {"scale_255", "normalise"});
  task.data.pad = 8;
  return task;
}

using Values = std::vector<float>;

Values values_of(const BatchView& view) {
  const ConstBufferView& features = view.at("features").values;
  const auto* const from = static_cast<const float*>(features.data);
  return {from, from + features.count};
}

// The values of `steps` steps from `first` on.
std::vector<Values> train(const spec::TaskSpec& task, const dataset::PreparedDataset& data, int threads, int64_t first,
                          int64_t steps, const BadSampleRule& bad = {}) {
  const auto workload = make_workload(task, data, 1, 42);
  const auto loader = workload->make_train_loader({.first_step = first, .threads = threads, .bad = bad});
  std::vector<Values> all;
  for (int64_t step = 0; step < steps; ++step) {
    const Batch& batch = loader->next();
    Values& values = all.emplace_back();
    for (const BatchView& micro : batch.micro) {
      const Values one = values_of(micro);
      values.insert(values.end(), one.begin(), one.end());
    }
  }
  return all;
}

std::vector<Values> evaluate(const spec::TaskSpec& task, const dataset::PreparedDataset& data, int threads,
                             const BadSampleRule& bad = {}) {
  const auto workload = make_workload(task, data, 1, 42);
  const auto loader = workload->make_eval_loader({.threads = threads, .bad = bad});
  std::vector<Values> all;
  while (const BatchView* view = loader->next()) all.push_back(values_of(*view));
  return all;
}

TEST(ImageTraining, BitsAreThoseOfAnyNumberOfThreadsAndOfAnyFirstStep) {
  for (const bool equal_sizes : {false, true}) {
    const Photos photos(equal_sizes);
    const spec::TaskSpec task = equal_sizes ? whole_images() : crops();
    const std::vector<Values> all = train(task, *photos.data, 1, 0, 7);
    EXPECT_NE(all[0], all[3]) << "the second epoch";
    for (const int threads : {2, 3}) EXPECT_EQ(train(task, *photos.data, threads, 0, 7), all);
    for (int64_t first = 1; first < 7; ++first) {
      EXPECT_EQ(train(task, *photos.data, 2, first, 7 - first), std::vector<Values>(all.begin() + first, all.end()));
    }
    const std::vector<Values> evaluated = evaluate(task, *photos.data, 1);
    ASSERT_EQ(evaluated.size(), 1U);
    EXPECT_EQ(evaluated[0].size(), 4U * 3 * 20 * 20);
    for (const int threads : {2, 3}) EXPECT_EQ(evaluate(task, *photos.data, threads), evaluated);
  }
}

// The crops of image/, normalised there.
TEST(ImageTraining, CropsAreThoseOfTheImageModule) {
  const Photos photos;
  const spec::TaskSpec task = crops();
  const image::PixelValues values({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225});
  const std::string file = read_file(photos.first());
  const image::EncodedImage encoded = image::test::encoded(file);
  Values expected(3 * 20 * 20);
  const auto crop = image::draw_crop(image::read_size(encoded), {}, 42, 5, 0);
  image::write_training_crop(encoded, crop, {.side = 20}, values, expected);
  const auto bytes = static_cast<int64_t>(file.size());
  const Sample sample{0, {&bytes, 1}, {file.data(), bytes, DType::kUInt8}, "00.jpg"};
  Values given(expected.size());
  make_transform(task.data.train_transform, task.data, 42)->apply(sample, 5, given);
  EXPECT_EQ(given, expected);
  image::write_evaluation_crop(encoded, 23, {.side = 20}, values, expected);  // 20 * 8 / 7
  make_transform(task.data.eval_transform, task.data, 42)->apply(sample, 5, given);
  EXPECT_EQ(given, expected);
}

// Whole images, decoded and put into planes beforehand.
TEST(ImageTraining, WholeImagesGoThroughTheStagesOfDecodedOnes) {
  const std::string file = jpeg(0, {20, 20});
  const image::Pixels pixels = image::decode(image::test::encoded(file));
  std::vector<uint8_t> planes(3 * 20 * 20);
  for (size_t i = 0; i < planes.size(); ++i) planes[i] = pixels.values[i % 400 * 3 + i / 400];
  const spec::TaskSpec task = whole_images();
  const auto bytes = static_cast<int64_t>(file.size());
  for (const auto& names : {task.data.train_transform, task.data.eval_transform}) {
    const auto transform = make_transform(names, task.data, 42);
    for (int64_t epoch = 0; epoch < 20; ++epoch) {
      Values encoded(planes.size()), decoded(planes.size());
      transform->apply({7, {&bytes, 1}, {file.data(), bytes, DType::kUInt8}, "x.jpg"}, epoch, encoded);
      transform->apply({7, task.data.sample_shape, const_view_of(std::span<const uint8_t>(planes))}, epoch, decoded);
      ASSERT_EQ(encoded, decoded) << epoch;
    }
  }
}

// Made samples are not encoded, and are as large as a crop.
TEST(ImageTraining, DecodedSamplesAreOnlyMirrored) {
  std::vector<uint8_t> planes(3 * 20 * 20);
  for (size_t i = 0; i < planes.size(); ++i) planes[i] = static_cast<uint8_t>(i * 7 % 251);
  spec::TaskSpec task = task_of({"random_resized_crop"}, {"resize_center_crop"});
  const auto through = [&](const std::vector<std::string>& names, int64_t epoch) {
    Values out(planes.size());
    make_transform(names, task.data, 42)
        ->apply({0, task.data.sample_shape, const_view_of(std::span<const uint8_t>(planes))}, epoch, out);
    return out;
  };
  const Values as_it_is(planes.begin(), planes.end());
  Values mirrored = as_it_is;
  for (auto row = mirrored.begin(); row != mirrored.end(); row += 20) std::reverse(row, row + 20);
  int flips = 0;
  for (int64_t epoch = 0; epoch < 40; ++epoch) {
    const Values out = through(task.data.train_transform, epoch);
    EXPECT_TRUE(out == as_it_is || out == mirrored);
    flips += out == mirrored ? 1 : 0;
  }
  EXPECT_GT(flips, 8);
  EXPECT_LT(flips, 32);
  EXPECT_EQ(through(task.data.eval_transform, 3), as_it_is);
}

TEST(ImageTraining, HeldOutImagesAreNotTrainedOn) {
  const Photos photos;
  spec::TaskSpec task = crops();
  task.data.holdout = 0.25;
  EXPECT_EQ(make_workload(task, *photos.data, 1, 42)->plan().samples_per_epoch(), 6);
  EXPECT_EQ(evaluate(task, *photos.data, 2)[0].size(), 2U * 3 * 20 * 20);
}

TEST(ImageTraining, ABadImageIsNamedWithItsFileAndTheReason) {
  Photos photos;
  const std::string good = read_file(photos.first());
  write(photos.first(), good.substr(0, good.size() / 2));
  photos.prepare();
  const auto all = [&] { train(crops(), *photos.data, 2, 0, 3); };
  EXPECT_THAT(all, ::testing::ThrowsMessage<UserError>(AllOf(HasSubstr("sample 0 of split 'train': "),
                                                             HasSubstr("train/cats/00.jpg"),
                                                             HasSubstr("or allow it by --max-bad 1"))));
  write(photos.first(), good + "x");
  EXPECT_THAT(all, ::testing::ThrowsMessage<UserError>(HasSubstr("make the index again"))) << "changed afterwards";
  write(photos.first(), good);
  photos.prepare();
  const auto other_sizes = [&] { train(whole_images(), *photos.data, 2, 0, 3); };
  EXPECT_THAT(other_sizes, ::testing::ThrowsMessage<UserError>(HasSubstr("the task expects [3, 20, 20]")));
}

// The images of the class "cats" come first: 00, 04, 06, 10 of the training split, and 02, 08 of the other.
TEST(ImageTraining, OthersStandInForBadImagesWhateverTheNumberOfThreads) {
  Photos photos;
  const auto cut = [&](const char* name) {
    const fs::path file = photos.folder / "dots" / name;
    const std::string good = read_file(file);
    write(file, good.substr(0, good.size() / 2));
  };
  cut("train/cats/04.jpg");
  write(photos.folder / "dots/train/cats/06.jpg", "GIF89a");
  cut("val/cats/02.jpg");
  photos.prepare();
  std::set<std::string> told;
  const BadSampleRule bad{
      2, [&](const BadSample& one) {
        told.insert(fmt::format("{} {}: {}; {}", one.split, image_name(photos.data->split(one.split), one.number),
                                one.reason, image_name(photos.data->split(one.split), one.stand_in)));
      }};
  const std::vector<Values> trained = train(crops(), *photos.data, 1, 0, 6, bad);
  const std::vector<Values> evaluated = evaluate(crops(), *photos.data, 1, bad);
  const std::set<std::string> expected = {
      "train train/cats/04.jpg: damaged image: the file is truncated: its pixels have no end; train/cats/10.jpg",
      "train train/cats/06.jpg: looks like GIF, expected a JPEG or PNG file; train/cats/10.jpg",
      "test val/cats/02.jpg: damaged image: the file is truncated: its pixels have no end; val/cats/08.jpg"};
  EXPECT_EQ(told, expected);
  ASSERT_EQ(evaluated.size(), 1U);
  const auto half = evaluated[0].begin() + 3 * 20 * 20;
  EXPECT_EQ(Values(evaluated[0].begin(), half), Values(half, half + 3 * 20 * 20)) << "08 comes twice";
  for (const int threads : {2, 3}) {
    EXPECT_EQ(train(crops(), *photos.data, threads, 0, 6, bad), trained);
    EXPECT_EQ(evaluate(crops(), *photos.data, threads, bad), evaluated);
  }
  EXPECT_EQ(told, expected);
}

// As where a disk or a file system damages a file: neither its size nor its time says so.
TEST(ImageTraining, AFileThatWasDamagedAfterItsIndexIsNoBadImage) {
  const Photos photos;
  const auto time = fs::last_write_time(photos.first());
  write(photos.first(), std::string(fs::file_size(photos.first()), 'x'));
  fs::last_write_time(photos.first(), time);
  EXPECT_THAT(
      [&] {
        train(crops(), *photos.data, 2, 0, 3, {5, [](const BadSample&) { FAIL(); }});
      },
      ::testing::ThrowsMessage<IoError>(AllOf(HasSubstr("sample 0 of split 'train': "),
                                              HasSubstr("00.jpg: its bytes have the SHA-256 "),
                                              HasSubstr("of the index"))));
}

// A tar file of images as WebDataset names them.
std::string shard_of(const std::vector<int>& numbers) {
  std::vector<image::FileInTar> members;
  for (const int number : numbers) {
    members.push_back({fmt::format("{:02}.jpg", number), jpeg(number, {23 + 5 * number, 60 - 3 * number})});
    members.push_back({fmt::format("{:02}.cls", number), std::to_string(number % 2)});
  }
  return image::tar_of(members);
}

// Eight images to train on and four to evaluate, in shards of a folder and of a store.
struct Shards {
  Shards() {
    const std::vector<std::pair<std::string, std::vector<int>>> files = {
        {"train-0.tar", {0, 1, 3}}, {"train-1.tar", {4, 6, 7, 9, 10}}, {"val-0.tar", {2, 5, 8, 11}}};
    for (const auto& [name, numbers] : files) {
      const std::string shard = shard_of(numbers);
      write(folder / "dots" / name, shard);
      store.put("dots/" + name, shard);
    }
    store.options();
    setenv("AWS_ENDPOINT_URL_S3", store.endpoint().c_str(), 1);
  }
  ~Shards() { unsetenv("AWS_ENDPOINT_URL_S3"); }
  Shards(const Shards&) = delete;
  Shards& operator=(const Shards&) = delete;

  dataset::PreparedDataset prepare(const std::string& data_dir) const {
    const std::string split = "container = \"tar\"\n[[split.file]]\npattern = ";
    const auto description = dataset::parse_description(
        "dots.toml",
        "name = \"dots\"\ntitle = \"Dots\"\nformat = \"images\"\nsample_shape = [3, 20, 20]\nclasses = 2\nfolder = "
        "\"dots\"\n[[split]]\nname = \"train\"\nsamples = 8\n" +
            split + "\"train-*.tar\"\n[[split]]\nname = \"test\"\nsamples = 4\n" + split + "\"val-*.tar\"\n");
    return dataset::prepare(description, {data_dir}, folder / "cache", {});
  }

  TemporaryFolder folder;
  objects::FakeStore store;
};

TEST(StoredImageTraining, BitsAreThoseOfTheFolder) {
  const Shards shards;
  const dataset::PreparedDataset files = shards.prepare(shards.folder.path()), stored = shards.prepare("s3://bucket");
  EXPECT_EQ(stored.fingerprint(), files.fingerprint());
  for (const int threads : {1, 3}) {
    EXPECT_EQ(train(crops(), stored, threads, 0, 7), train(crops(), files, threads, 0, 7));
    EXPECT_EQ(evaluate(crops(), stored, threads), evaluate(crops(), files, threads));
  }
  EXPECT_GT(stored.split("train").stored->store->counters().reads, 0);
}

TEST(StoredImageTraining, ASecondEpochComesFromTheCache) {
  const Shards shards;
  setenv("MLBENCH_OBJECT_CACHE", (shards.folder / "objects").c_str(), 1);
  const dataset::PreparedDataset stored = shards.prepare("s3://bucket");
  setenv("MLBENCH_OBJECT_CACHE_LIMIT", "a lot", 1);
  EXPECT_THAT([&] { shards.prepare("s3://bucket"); },
              ::testing::ThrowsMessage<UserError>(HasSubstr("MLBENCH_OBJECT_CACHE_LIMIT")));
  unsetenv("MLBENCH_OBJECT_CACHE");
  unsetenv("MLBENCH_OBJECT_CACHE_LIMIT");
  const int requests = shards.store.requests();
  train(crops(), stored, 2, 0, 6);
  EXPECT_EQ(shards.store.requests(), requests) << "the blocks of all shards were kept when the index was made";
}

TEST(StoredImageTraining, AnErrorNamesSampleAndObject) {
  Shards shards;
  const dataset::PreparedDataset stored = shards.prepare("s3://bucket");
  for (const int status : {403, 404}) {
    shards.store.faults = [status](int, const net::http::Request&) {
      return objects::FakeStore::Fault{.status = status};
    };
    EXPECT_THAT(
        [&] { train(crops(), stored, 2, 0, 3); },
        ::testing::ThrowsMessage<UserError>(AllOf(HasSubstr(" of split 'train': s3://bucket/dots/train-"),
                                                  HasSubstr(fmt::format(".tar: the store refuses ({}", status)))));
  }
}

TEST(StoredImageTraining, WrongBytesAreReadAgainAndThenRefused) {
  Shards shards;
  const dataset::PreparedDataset stored = shards.prepare("s3://bucket");
  const std::vector<Values> right = train(crops(), stored, 1, 0, 3);
  shards.store.faults = [](int count, const net::http::Request&) {
    return objects::FakeStore::Fault{.wrong_byte = count % 2 == 0};
  };
  const int requests = shards.store.requests();
  EXPECT_EQ(train(crops(), stored, 1, 0, 3), right);
  EXPECT_GT(shards.store.requests(), requests + 8) << "more than one read of each image";
  shards.store.faults = [](int, const net::http::Request&) { return objects::FakeStore::Fault{.wrong_byte = true}; };
  EXPECT_THAT([&] { train(crops(), stored, 2, 0, 3); },
              ::testing::ThrowsMessage<IoError>(
                  AllOf(HasSubstr(" of split 'train': s3://bucket/dots/train-"), HasSubstr(".tar: the bytes "),
                        HasSubstr(" of the index (2 reads)"), HasSubstr("empty the folder MLBENCH_OBJECT_CACHE"))));
}

TEST(ImageTraining, ListsThatCannotBeAreRefused) {
  const auto error = [](spec::TaskSpec task) {
    try {
      make_transform(task.data.train_transform, task.data, 42);
    } catch (const UserError& refused) {
      return std::string(refused.what());
    }
    return std::string();
  };
  EXPECT_THAT(error(task_of({"scale_255", "random_resized_crop"}, {})), HasSubstr("first in its list"));
  spec::TaskSpec oblong = crops();
  oblong.data.sample_shape = {3, 20, 24};
  EXPECT_THAT(error(oblong), HasSubstr("as many rows as columns, given [3, 20, 24]"));
  EXPECT_THAT(error(task_of({"random_resized_crop", "pad_crop_flip"}, {})), HasSubstr("only one that moves"));
  EXPECT_EQ(error(crops()), "");
}

}  // namespace
}  // namespace mlbench::data
