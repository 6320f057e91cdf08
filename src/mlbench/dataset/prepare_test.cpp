#include <gmock/gmock.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include "mlbench/base/errors.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/sha256.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/locate.h"
#include "mlbench/dataset/prepare.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/dataset/synthetic.h"
#include "mlbench/dataset/test_support.h"
#include "mlbench/dataset/verify.h"

namespace mlbench::dataset {
namespace {

namespace fs = std::filesystem;
using test::message_of;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::string features_of(const CachedSplit& split) {
  const ConstBufferView& values = split.column<FixedColumn>("features").values;
  return {static_cast<const char*>(values.data), values.size_bytes()};
}

// The fingerprint by its definition, from the data that the test wrote.
std::string expected_fingerprint() {
  std::string records;
  for (const std::string split : {"train", "test"}) {
    const std::string pixels = test::tiny_pixels(split);
    const std::string labels = test::tiny_labels(split);
    for (size_t i = 0; i < labels.size(); ++i) {
      records += pixels.substr(20 * i, 20) + labels[i] + std::string(7, '\0');
    }
  }
  return sha256_hex(records);
}

std::vector<fs::path> files_in(const fs::path& folder, const std::string& extension) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == extension) files.push_back(entry.path());
  }
  return files;
}

class Prepare : public ::testing::Test {
 protected:
  PreparedDataset prepare_tiny(const DatasetDescription& description = test::tiny()) {
    lines_.clear();
    return prepare(description, {data_.path().string()}, cache_.path(),
                   [&](const std::string& line) { lines_.push_back(line); });
  }
  std::string user_error() {
    const std::string text = message_of<UserError>([&] { prepare_tiny(); });
    EXPECT_THAT(files_in(cache_.path(), ".cache"), IsEmpty());
    EXPECT_THAT(files_in(cache_.path(), ".tmp"), IsEmpty());
    return text;
  }
  static void expect_tiny(const PreparedDataset& data) {
    for (const std::string name : {"train", "test"}) {
      const CachedSplit& split = data.split(name);
      EXPECT_EQ(features_of(split), test::tiny_pixels(name));
      EXPECT_EQ(text_of(split.columns[0]), "features (uint8 [1, 4, 5])");
      const std::string labels = test::tiny_labels(name);
      EXPECT_THAT(split.labels(), ElementsAreArray(labels));
      EXPECT_EQ(split.samples, static_cast<int64_t>(labels.size()));
    }
  }

  TemporaryFolder data_, cache_;
  std::vector<std::string> lines_;
};

TEST_F(Prepare, DecodesPackedAndUnpackedFilesAlike) {
  test::write_tiny(data_ / "tiny");
  expect_tiny(prepare_tiny());
  EXPECT_THAT(lines_, ElementsAre(HasSubstr("decoding tiny from " + (data_ / "tiny").string())));

  fs::remove_all(data_ / "tiny");
  test::write_tiny(data_ / "tiny", false);
  expect_tiny(prepare_tiny());
}

TEST_F(Prepare, FingerprintIsTheHashOfAllRecords) {
  test::write_tiny(data_ / "tiny");
  EXPECT_EQ(prepare_tiny().fingerprint(), expected_fingerprint());
  EXPECT_FALSE(prepare_tiny().official()) << "no official fingerprint is known";

  const PreparedDataset official = prepare_tiny(test::tiny(expected_fingerprint()));
  EXPECT_TRUE(official.official());
  EXPECT_EQ(official.record().dump(), R"({"name":"tiny","fingerprint":")" + expected_fingerprint() +
                                          R"(","official":true,"synthetic":false,"samples":{"train":7,"test":4}})");

  const PreparedDataset other = prepare_tiny(test::tiny(std::string(64, '0')));
  EXPECT_FALSE(other.official());
  EXPECT_THAT(lines_.back(), AllOf(HasSubstr("warning"), HasSubstr("not the official ones of tiny")));
}

TEST_F(Prepare, UnknownSplitListsTheValidOnes) {
  test::write_tiny(data_ / "tiny");
  const PreparedDataset data = prepare_tiny();
  EXPECT_THAT(message_of<UserError>([&] { data.split("dev"); }), AllOf(HasSubstr("'dev'"), HasSubstr("train, test")));
}

TEST_F(Prepare, SecondTimeMapsTheCache) {
  test::write_tiny(data_ / "tiny");
  prepare_tiny();
  expect_tiny(prepare_tiny());
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(Prepare, ChangedSourceIsDecodedAnew) {
  test::write_tiny(data_ / "tiny");
  const std::string before = prepare_tiny().fingerprint();
  std::string pixels = test::tiny_pixels("test");
  pixels[3] ^= 1;
  test::write_file(data_ / "tiny/test-images.gz", test::gzip(test::idx({4, 4, 5}, pixels)));
  const PreparedDataset after = prepare_tiny();
  EXPECT_EQ(features_of(after.split("test")), pixels);
  EXPECT_NE(after.fingerprint(), before);
}

TEST_F(Prepare, DamagedCacheIsMadeAnew) {
  test::write_tiny(data_ / "tiny");
  prepare_tiny();
  const fs::path cache = files_in(cache_.path(), ".cache").at(0);
  const std::string whole = read_file(cache);
  const auto with_changed_byte = [&](size_t at) {
    std::string changed = whole;
    changed[at] ^= 4;
    return changed;
  };
  const std::vector<std::string> damaged = {
      "",
      whole.substr(0, 100),
      whole.substr(0, whole.size() - 1),
      whole + "x",
      with_changed_byte(10),                      // version line
      with_changed_byte(60),                      // JSON line
      with_changed_byte(4096),                    // first training pixel
      with_changed_byte(whole.find('\2', 8192)),  // a label
      std::string(whole.size(), '\0'),
  };
  for (size_t i = 0; i < damaged.size(); ++i) {
    test::write_file(cache, damaged[i]);
    expect_tiny(prepare_tiny());
    EXPECT_THAT(lines_, ElementsAre(HasSubstr("is damaged"), HasSubstr("decoding"))) << i;
    EXPECT_EQ(read_file(cache), whole) << i;
    prepare_tiny();
    EXPECT_THAT(lines_, IsEmpty()) << i;
  }
}

TEST_F(Prepare, MappedCacheOutlivesItsReplacement) {
  test::write_tiny(data_ / "tiny");
  const PreparedDataset data = prepare_tiny();
  const fs::path cache = files_in(cache_.path(), ".cache").at(0);
  fs::remove(cache);
  prepare_tiny();
  expect_tiny(data);
}

TEST_F(Prepare, RemainsOfAKilledProcessDoNotMatter) {
  test::write_tiny(data_ / "tiny");
  prepare_tiny();
  const fs::path cache = files_in(cache_.path(), ".cache").at(0);
  fs::rename(cache, cache.string() + ".tmp");
  fs::resize_file(cache.string() + ".tmp", 100000);
  expect_tiny(prepare_tiny());
  EXPECT_THAT(files_in(cache_.path(), ".tmp"), IsEmpty());
}

TEST_F(Prepare, OneProcessDecodesAndTheOthersWait) {
  // Big enough that the processes meet.
  const std::string toml = R"(
name = "wide"
title = "Wide"
format = "idx"
sample_shape = [1, 100, 100]
classes = 10
folder = "wide"
[[split]]
name = "train"
samples = 2000
[[split.file]]
pattern = "images"
[[split.file]]
pattern = "labels"
)";
  const DatasetDescription wide = parse_description("wide.toml", toml);
  std::string pixels;
  pixels.resize(20'000'000, 'x');
  test::write_file(data_ / "wide/images", test::idx({2000, 100, 100}, pixels));
  test::write_file(data_ / "wide/labels", test::idx({2000}, std::string(2000, '\3')));
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(fork());
    if (children.back() == 0) {
      int decoded = 0;
      try {
        const PreparedDataset data =
            prepare(wide, {data_.path().string()}, cache_.path(),
                    [&](const std::string& line) { decoded += line.starts_with("decoding") ? 1 : 0; });
        if (data.split("train").labels().back() != 3) decoded = 50;
      } catch (...) {
        decoded = 50;
      }
      _exit(decoded);
    }
  }
  int decoded = 0;
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    decoded += WEXITSTATUS(status);
  }
  EXPECT_EQ(decoded, 1);
}

// --- what may be wrong with the files

TEST_F(Prepare, TruncatedFiles) {
  test::write_tiny(data_ / "tiny", false);
  const fs::path images = data_ / "tiny/train-images";
  const std::string whole = read_file(images);
  test::write_file(images, whole.substr(0, 100));
  EXPECT_THAT(user_error(), AllOf(HasSubstr(images.string()), HasSubstr("truncated"), HasSubstr("84 of 140 bytes")));
  test::write_file(images, whole.substr(0, 9));
  EXPECT_THAT(user_error(), AllOf(HasSubstr(images.string()), HasSubstr("truncated"), HasSubstr("header")));
  test::write_file(images, "");
  EXPECT_THAT(user_error(), AllOf(HasSubstr(images.string()), HasSubstr("0 of 4 bytes of its header")));
}

TEST_F(Prepare, TruncatedGzip) {
  test::write_tiny(data_ / "tiny");
  const fs::path images = data_ / "tiny/train-images.gz";
  const std::string whole = read_file(images);
  for (const size_t cut : {size_t{1}, size_t{9}, whole.size() / 2}) {
    test::write_file(images, whole.substr(0, whole.size() - cut));
    EXPECT_THAT(user_error(), AllOf(HasSubstr(images.string()), HasSubstr("truncated"))) << cut;
  }
}

TEST_F(Prepare, CorruptGzip) {
  test::write_tiny(data_ / "tiny");
  const fs::path images = data_ / "tiny/train-images.gz";
  std::string bytes = read_file(images);
  bytes[bytes.size() - 7] ^= 1;  // checksum of the content
  test::write_file(images, bytes);
  EXPECT_THAT(user_error(), AllOf(HasSubstr(images.string()), HasSubstr("damaged gzip data"), HasSubstr("data check")));

  bytes = read_file(data_ / "tiny/train-labels.gz");
  bytes[10] = static_cast<char>(0xFF);  // a block type that does not exist
  test::write_file(data_ / "tiny/train-labels.gz", bytes);
  test::write_tiny(data_ / "again");
  fs::copy_file(data_ / "again/train-images.gz", images, fs::copy_options::overwrite_existing);
  EXPECT_THAT(user_error(), AllOf(HasSubstr("train-labels.gz"), HasSubstr("damaged gzip data")));

  test::write_file(images, "<html>not found</html>");
  EXPECT_THAT(user_error(), AllOf(HasSubstr(images.string()), HasSubstr("no gzip data")));
}

TEST_F(Prepare, WrongMagic) {
  test::write_tiny(data_ / "tiny", false);
  fs::copy_file(data_ / "tiny/train-labels", data_ / "tiny/train-images", fs::copy_options::overwrite_existing);
  EXPECT_THAT(user_error(), AllOf(HasSubstr("train-images: idx magic 0x00000801"), HasSubstr("expected 0x00000803")));
}

TEST_F(Prepare, WrongCountOrShape) {
  test::write_tiny(data_ / "tiny", false);
  test::write_file(data_ / "tiny/train-labels", test::idx({6}, "012012"));
  EXPECT_THAT(user_error(), AllOf(HasSubstr("train-labels: holds 6 bytes"), HasSubstr("expected 7")));
  test::write_file(data_ / "tiny/train-images", test::idx({7, 5, 4}, test::tiny_pixels("train")));
  EXPECT_THAT(user_error(), AllOf(HasSubstr("train-images: holds 7 x 5 x 4"), HasSubstr("expected 7 x 4 x 5")));
  test::write_tiny(data_ / "tiny", false);
  test::write_file(data_ / "tiny/train-images", test::idx({7, 4, 5}, test::tiny_pixels("train") + "x"));
  EXPECT_THAT(user_error(), HasSubstr("train-images: goes on after its last record, at byte 156"));
}

TEST_F(Prepare, WrongLabel) {
  test::write_tiny(data_ / "tiny", false);
  test::write_file(data_ / "tiny/test-labels", test::idx({4}, std::string{0, 1, 3, 2}));
  EXPECT_THAT(user_error(), AllOf(HasSubstr("test-labels: label 3 of sample 2"), HasSubstr("expected 0 to 2")));
}

// --- where they may be

TEST_F(Prepare, NotFoundListsEveryPlaceAndTheCommand) {
  test::write_tiny(data_ / "tiny");
  fs::remove(data_ / "tiny/test-labels.gz");
  DatasetDescription description = parse_description("tiny.toml", test::tiny_toml("", "https://example.org"));
  description.system_package = "dataset-tiny";
  description.system_path = (data_ / "usr/share/tiny").string();
  const std::string text = message_of<UserError>([&] {
    locate(description, {data_.path().string(), (data_ / "absent").string()});
  });
  EXPECT_THAT(text, HasSubstr((data_ / "tiny").string() + " (data folder): no test-labels[.gz|.bz2|.xz]"));
  EXPECT_THAT(text, HasSubstr(data_.path().string() + " (data folder): none of its files"));
  EXPECT_THAT(text, HasSubstr((data_ / "absent").string() + " (data folder): no such folder"));
  EXPECT_THAT(text, HasSubstr((data_ / "usr/share/tiny").string() + " (package dataset-tiny): no such folder"));
  EXPECT_THAT(text, HasSubstr("\nto get it: mlbench data fetch tiny, or install the package dataset-tiny, or name"));
}

TEST_F(Prepare, FilesWithoutAnAddressAreToBePutIntoTheLastFolder) {
  const std::string text = message_of<UserError>([&] { locate(test::tiny(), {"/a", "/b"}); });
  EXPECT_THAT(text, HasSubstr("put train-images, train-labels, test-images, test-labels into /b/tiny, or name"));
  EXPECT_THAT(text, Not(HasSubstr("data fetch")));
}

TEST_F(Prepare, LooksInOrder) {
  DatasetDescription description = test::tiny();
  description.system_package = "dataset-tiny";
  description.system_path = (data_ / "system").string();
  const std::vector<std::string> dirs = {(data_ / "a").string(), (data_ / "b").string()};
  test::write_tiny(data_ / "system");
  EXPECT_EQ(locate(description, dirs).origin, "package dataset-tiny");
  test::write_tiny(data_ / "b");
  EXPECT_EQ(locate(description, dirs).folder, data_ / "b");
  test::write_tiny(data_ / "b/tiny", false);
  const LocatedDataset located = locate(description, dirs);
  EXPECT_EQ(located.folder, data_ / "b/tiny");
  EXPECT_EQ(located.origin, "data folder");
  EXPECT_EQ(located.files.at(1).at(0), data_ / "b/tiny/test-images");
  test::write_tiny(data_ / "a");
  EXPECT_EQ(locate(description, dirs).folder, data_ / "a");
}

// A folder of the user's with some of the files is an error, even where the system's copy is whole.
TEST_F(Prepare, FilesThatDoNotFitAreNamed) {
  DatasetDescription description = test::tiny();
  description.system_package = "dataset-tiny";
  description.system_path = (data_ / "system").string();
  description.lookalikes = {{"tiny-py", "is another layout"}};
  test::write_tiny(data_ / "system");
  const std::string given = data_ / "given";
  const auto refusal = [&] { return message_of<UserError>([&] { locate(description, {given}); }); };
  const auto with_file = [&](const std::string& name) {
    fs::remove_all(given);
    test::write_file(given + "/" + name, "x");
  };

  test::write_tiny(given + "/tiny");
  fs::remove(given + "/tiny/test-labels.gz");
  EXPECT_THAT(refusal(), AllOf(HasSubstr("tiny: what lies here does not fit"),
                               HasSubstr(given + "/tiny (data folder): no test-labels[.gz|.bz2|.xz]"),
                               HasSubstr("the copy in " + description.system_path + " (package dataset-tiny)"),
                               HasSubstr("--data-dir DIR or MLBENCH_DATA_DIR")));
  const SearchResult result = search(description, {given});
  EXPECT_TRUE(result.found);
  EXPECT_THAT(result.misfits, AllOf(HasSubstr(given + "/tiny"), Not(HasSubstr(given + " (data folder)"))));
  with_file("tiny/notes.txt");
  EXPECT_THAT(refusal(), HasSubstr(given + "/tiny (data folder): none of its files, but notes.txt"));
  for (const std::string name : {"tiny", "tiny.zip", "train-images.zip"}) {
    with_file(name);
    EXPECT_THAT(refusal(), HasSubstr(given + " (data folder): none of its files, but " + name));
  }
  with_file("tiny-py/data_batch_1");
  EXPECT_THAT(refusal(), HasSubstr(given + " (data folder): none of its files; tiny-py is another layout"));
  for (const std::string name : {"tiny-2/train-images.gz", "tinyx", "other.gz"}) {
    with_file(name);
    EXPECT_EQ(locate(description, {given}).origin, "package dataset-tiny") << name;
  }
}

TEST_F(Prepare, DamagedFilesAreNotPassedOverEither) {
  DatasetDescription description = test::tiny();
  description.system_package = "dataset-tiny";
  description.system_path = (data_ / "system").string();
  test::write_tiny(data_ / "system");
  test::write_tiny(data_ / "tiny", false);
  test::write_file(data_ / "tiny/train-labels", test::idx({6}, "012012"));
  EXPECT_THAT(message_of<UserError>([&] { prepare_tiny(description); }),
              HasSubstr((data_ / "tiny/train-labels").string() + ": holds 6 bytes, expected 7"));
}

TEST_F(Prepare, CacheFolderThatIsAFile) {
  test::write_tiny(data_ / "tiny");
  test::write_file(cache_ / "file", "");
  EXPECT_THAT(message_of<IoError>([&] { prepare(test::tiny(), {data_.path().string()}, cache_ / "file", {}); }),
              HasSubstr((cache_ / "file").string()));
}

// --- no room for the cache

// Runs in a child process, which has limits and mounts of its own. Prints to standard error what is wrong.
int prepare_without_room(const std::string& data, const fs::path& cache) {
  try {
    prepare(test::tiny(), {data}, cache, {});
    fprintf(stderr, "no exception\n");
    return 1;
  } catch (const IoError& error) {
    if (!std::strstr(error.what(), "MB are needed") || !std::strstr(error.what(), cache.c_str())) {
      fprintf(stderr, "%s\n", error.what());
      return 1;
    }
  }
  return files_in(cache, ".cache").empty() && files_in(cache, ".tmp").empty() ? 0 : 1;
}

int exit_code_of_child(const std::function<int()>& action) {
  const pid_t child = fork();
  if (child == 0) {
    int code = 1;
    try {
      code = action();
    } catch (const std::exception& error) {
      fprintf(stderr, "%s\n", error.what());
    }
    _exit(code);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(Prepare, FileSizeLimit) {
  test::write_tiny(data_ / "tiny");
  EXPECT_EQ(0, exit_code_of_child([&] {
              signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{5000, 5000};
              if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 1;
              return prepare_without_room(data_.path().string(), cache_.path());
            }));
  expect_tiny(prepare_tiny());
}

TEST_F(Prepare, FullDisk) {
  test::write_tiny(data_ / "tiny");
  constexpr int kNoMount = 77;
  const int code = exit_code_of_child([&] {
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", cache_.path().c_str(), "tmpfs", 0, "size=8192") != 0) {
      return kNoMount;
    }
    return prepare_without_room(data_.path().string(), cache_.path());
  });
  if (code == kNoMount) GTEST_SKIP() << "missing capability: the right to mount a tmpfs";
  EXPECT_EQ(code, 0);
}

// --- made data

TEST(Synthetic, HasTheFormOfTheRealSetAndDependsOnTheDescriptionsSeedAlone) {
  const TemporaryFolder cache, other_cache;
  const PreparedDataset data = make_synthetic(test::tiny(), cache.path());
  EXPECT_TRUE(data.synthetic());
  EXPECT_FALSE(data.official());
  EXPECT_EQ(data.split("train").samples, 7);
  EXPECT_EQ(data.split("test").samples, 4);
  EXPECT_EQ(data.split("train").column<FixedColumn>("features").shape, (std::vector<int64_t>{1, 4, 5}));
  EXPECT_THAT(data.split("train").labels(), ElementsAre(0, 1, 2, 0, 1, 2, 0));
  EXPECT_EQ(make_synthetic(test::tiny(), cache.path()).fingerprint(), data.fingerprint());
  EXPECT_EQ(make_synthetic(test::tiny(), other_cache.path()).fingerprint(), data.fingerprint());
  const auto other = parse_description("tiny.toml", "synthetic_seed = 43\n" + test::tiny_toml());
  EXPECT_NE(make_synthetic(other, cache.path()).fingerprint(), data.fingerprint());
}

// The nearest of the classes' mean training images finds the class of a test image.
TEST(Synthetic, IsLearnable) {
  DatasetDescription description = find_description("fashion-mnist");
  description.splits[0].samples = 500;
  description.splits[1].samples = 200;
  const TemporaryFolder cache;
  const PreparedDataset data = make_synthetic(description, cache.path());
  const auto volume = static_cast<size_t>(description.sample_volume());
  const auto pixels = [&](const CachedSplit& split, size_t sample) {
    return split.column<FixedColumn>("features").as<uint8_t>().subspan(sample * volume, volume);
  };

  std::vector<std::vector<double>> means(10, std::vector<double>(volume));
  const CachedSplit& train = data.split("train");
  for (size_t i = 0; i < 500; ++i) {
    for (size_t p = 0; p < volume; ++p) means[static_cast<size_t>(train.labels()[i])][p] += pixels(train, i)[p] / 50.0;
  }
  const CachedSplit& test = data.split("test");
  int right = 0;
  for (size_t i = 0; i < 200; ++i) {
    size_t nearest = 0;
    double smallest = std::numeric_limits<double>::max();
    for (size_t label = 0; label < 10; ++label) {
      double distance = 0;
      for (size_t p = 0; p < volume; ++p) distance += std::pow(means[label][p] - pixels(test, i)[p], 2);
      if (distance < smallest) {
        smallest = distance;
        nearest = label;
      }
    }
    right += static_cast<int64_t>(nearest) == test.labels()[i] ? 1 : 0;
  }
  EXPECT_GE(right, 195);
}

// --- published checksums

TEST(Verify, ComparesFilesAndContent) {
  const TemporaryFolder data;
  test::write_tiny(data / "tiny");
  DatasetDescription description = test::tiny();
  FileSource& source = description.splits[0].files[0];
  source.sha256 = sha256_hex_of_file(data / "tiny/train-images.gz");
  source.content_sha256 = sha256_hex(test::idx({7, 4, 5}, test::tiny_pixels("train")));
  const auto first = [&] { return verify(description, locate(description, {data.path().string()})).at(0); };

  EXPECT_EQ(first().file, (data / "tiny/train-images.gz").string());
  EXPECT_TRUE(first().ok);
  EXPECT_EQ(first().message, "as published");
  EXPECT_FALSE(verify(description, locate(description, {data.path().string()})).at(1).ok) << "no checksum is known";

  source.sha256 = std::string(64, '0');
  EXPECT_TRUE(first().ok);
  EXPECT_THAT(first().message, HasSubstr("packed otherwise"));

  test::write_file(data / "tiny/train-images.gz", test::gzip("something else"));
  EXPECT_FALSE(first().ok);
  EXPECT_THAT(first().message, HasSubstr("published " + source.sha256));

  test::write_file(data / "tiny/train-images.gz", read_file(data / "tiny/train-images.gz").substr(0, 20));
  EXPECT_FALSE(first().ok);
  EXPECT_THAT(first().message, HasSubstr("truncated"));
}

// --- the real sets

void expect_official(const std::string& name, const std::vector<std::string>& data_dirs) {
  const TemporaryFolder cache;
  const DatasetDescription& description = find_description(name);
  const PreparedDataset data = prepare(description, data_dirs, cache.path(), {});
  EXPECT_TRUE(data.official()) << data.fingerprint();
  for (const CachedSplit& split : data.splits()) {
    std::vector<int64_t> counts(10);
    for (const int64_t label : split.labels()) ++counts[static_cast<size_t>(label)];
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), int64_t{0}), split.samples);
    if (name == "fashion-mnist") {
      EXPECT_THAT(counts, ::testing::Each(split.samples / 10));
    }
  }
  for (const VerifyResult& result : verify(description, locate(description, data_dirs))) {
    EXPECT_TRUE(result.ok) << result.file << ": " << result.message;
  }
}

TEST(RealData, FashionMnistOfThePackageIsOfficial) {
  if (!fs::exists(find_description("fashion-mnist").system_path))
    GTEST_SKIP() << "missing capability: package dataset-fashion-mnist";
  expect_official("fashion-mnist", {});
}

TEST(RealData, MnistIsOfficialAndNotFashionMnist) {
  const auto folder = environment_variable("MLBENCH_DATA_DIR");
  if (!folder) GTEST_SKIP() << "missing capability: real data (MLBENCH_DATA_DIR)";
  if (!fs::exists(fs::path(*folder) / "mnist")) GTEST_SKIP() << "missing capability: mnist in MLBENCH_DATA_DIR";
  expect_official("mnist", {*folder});

  // The files have the same names: only the fingerprint tells.
  const TemporaryFolder cache;
  std::vector<std::string> lines;
  const PreparedDataset data = prepare(find_description("fashion-mnist"), {*folder + "/mnist"}, cache.path(),
                                       [&](const std::string& line) { lines.push_back(line); });
  EXPECT_FALSE(data.official());
  EXPECT_THAT(lines.back(), HasSubstr("these are those of mnist"));
}

}  // namespace
}  // namespace mlbench::dataset
