#include <archive.h>
#include <archive_entry.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "mlbench/base/errors.h"
#include "mlbench/base/sha256.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/locate.h"
#include "mlbench/dataset/prepare.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/dataset/test_support.h"
#include "mlbench/dataset/verify.h"

namespace mlbench::dataset {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

// Images of 3 x 2 x 2, 3 classes; 4 training samples in two files, 2 test samples in one.
constexpr size_t kVolume = 12;

std::string records(int first, std::initializer_list<int> labels) {
  std::string bytes;
  for (const int label : labels) {
    bytes += static_cast<char>(label);
    for (size_t i = 0; i < kVolume; ++i) bytes += static_cast<char>((first + static_cast<int>(i)) % 256);
    first += 50;
  }
  return bytes;
}

std::map<std::string, std::string> files() {
  return {{"batch_1.bin", records(0, {2, 0})}, {"batch_2.bin", records(100, {1, 1})}, {"test.bin", records(7, {0, 2})}};
}

DatasetDescription small(const std::string& more = "", const std::string& test_sha256 = "") {
  std::string toml =
      "name = \"small\"\ntitle = \"Small\"\nformat = \"cifar\"\nsample_shape = [3, 2, 2]\nclasses = 3\nfolder = "
      "\"small\"\n[archive]\npattern = \"small.tar\"\nfolder = \"inside\"\n[[lookalike]]\npattern = \"small-py\"\n"
      "advice = \"is the Python layout\"\n" +
      more;
  const auto add = [&](const std::string& name, const std::string& sha256) {
    toml += "[[split.file]]\npattern = \"" + name + "\"\ncontent_sha256 = \"" + sha256 + "\"\n";
  };
  toml += "[[split]]\nname = \"train\"\nsamples = 4\n";
  for (const char* name : {"batch_1.bin", "batch_2.bin"}) add(name, sha256_hex(files().at(name)));
  toml += "[[split]]\nname = \"test\"\nsamples = 2\n";
  add("test.bin", test_sha256.empty() ? sha256_hex(files().at("test.bin")) : test_sha256);
  return parse_description("small.toml", toml);
}

void write_files(const fs::path& folder, const std::map<std::string, std::string>& content = files()) {
  for (const auto& [name, bytes] : content) test::write_file(folder / name, bytes);
}

void write_archive(const fs::path& path, int (*filter)(archive*), const std::map<std::string, std::string>& members) {
  archive* writer = archive_write_new();
  filter(writer);
  archive_write_set_format_ustar(writer);
  ASSERT_EQ(archive_write_open_filename(writer, path.c_str()), ARCHIVE_OK);
  for (const auto& [name, bytes] : members) {
    archive_entry* entry = archive_entry_new();
    archive_entry_set_pathname(entry, name.c_str());
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_entry_set_perm(entry, 0644);
    archive_entry_set_size(entry, static_cast<la_int64_t>(bytes.size()));
    archive_write_header(writer, entry);
    archive_write_data(writer, bytes.data(), bytes.size());
    archive_entry_free(entry);
  }
  ASSERT_EQ(archive_write_close(writer), ARCHIVE_OK);
  archive_write_free(writer);
}

std::map<std::string, std::string> members() {
  std::map<std::string, std::string> result = {{"inside/readme.html", "text"}, {"../../escape", "no"}};
  for (const auto& [name, bytes] : files()) result["inside/" + name] = bytes;
  return result;
}

void expect_records(const PreparedDataset& data) {
  const CachedSplit& train = data.split("train");
  EXPECT_THAT(train.labels(), testing::ElementsAre(2, 0, 1, 1));
  EXPECT_THAT(data.split("test").labels(), testing::ElementsAre(0, 2));
  const auto bytes = train.column<FixedColumn>("features").as<uint8_t>();
  for (size_t sample = 0; sample < 4; ++sample) {
    const size_t first = std::array<size_t, 4>{0, 50, 100, 150}[sample];
    for (size_t i = 0; i < kVolume; ++i) EXPECT_EQ(bytes[sample * kVolume + i], first + i);
  }
}

TEST(Cifar, ReadsAFolder) {
  const TemporaryFolder folder;
  for (const char* place : {"a/small/inside", "b/inside", "c/small", "d"}) {
    write_files(folder / place);
    const std::string data_dir = folder / std::string(place).substr(0, 1);
    expect_records(prepare(small(), {data_dir}, folder / "cache", {}));
  }
}

TEST(Cifar, ReadsTheArchiveAndLeavesNothingBehind) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "gz");
  fs::create_directories(folder / "xz");
  write_archive(folder / "gz/small.tar.gz", archive_write_add_filter_gzip, members());
  write_archive(folder / "xz/small.tar.xz", archive_write_add_filter_xz, members());
  for (const char* place : {"gz", "xz"}) {
    const fs::path cache = folder / (std::string("cache-") + place);
    const PreparedDataset data = prepare(small(), {folder / place}, cache, {});
    expect_records(data);
    EXPECT_TRUE(data.official());
    for (const auto& entry : fs::directory_iterator(cache)) EXPECT_TRUE(entry.is_regular_file()) << entry.path();
    const auto located = locate(small(), {folder / place});
    for (const VerifyResult& result : verify(small(), located)) EXPECT_TRUE(result.ok) << result.message;
  }
  EXPECT_FALSE(fs::exists(folder.path().parent_path() / "escape"));
}

TEST(Cifar, IsOfficialWhenEveryPublishedFileFollows) {
  const TemporaryFolder folder;
  write_files(folder / "data");
  EXPECT_TRUE(prepare(small(), {folder / "data"}, folder / "cache", {}).official());
  std::vector<std::string> lines;
  const auto other = small("", std::string(64, 'a'));
  const auto data =
      prepare(other, {folder / "data"}, folder / "cache", [&](const auto& line) { lines.push_back(line); });
  EXPECT_FALSE(data.official());
  EXPECT_EQ(data.record()["official"], false);
  ASSERT_FALSE(lines.empty());
  EXPECT_THAT(lines.back(), HasSubstr("not the official ones of small"));
}

TEST(Cifar, WrongFilesAreExplained) {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& name, const std::string& bytes) {
    auto content = files();
    content[name] = bytes;
    write_files(folder / "data", content);
    return test::message_of<UserError>([&] { prepare(small(), {folder / "data"}, folder / "cache", {}); });
  };
  EXPECT_THAT(message("batch_2.bin", records(0, {0, 7})),
              AllOf(HasSubstr("batch_2.bin"), HasSubstr("label 7 of sample 1, expected 0 to 2")));
  EXPECT_THAT(message("batch_2.bin", records(0, {0, 1}).substr(0, 20)),
              HasSubstr("truncated, ends after 7 of 13 bytes of its record 1 of 2"));
  EXPECT_THAT(message("batch_2.bin", records(0, {0, 1, 2})), HasSubstr("goes on after its last record, at byte 26"));
}

TEST(Cifar, WrongArchivesAreExplained) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "data");
  const fs::path path = folder / "data/small.tar.gz";
  const auto message = [&] {
    return test::message_of<UserError>([&] { prepare(small(), {folder / "data"}, folder / "cache", {}); });
  };
  auto some = members();
  some.erase("inside/test.bin");
  write_archive(path, archive_write_add_filter_gzip, some);
  EXPECT_THAT(message(), HasSubstr("small.tar.gz: holds no inside/test.bin"));
  test::write_file(path, "this is no archive at all");
  EXPECT_THAT(message(), HasSubstr("small.tar.gz: damaged archive"));
  some = members();
  some["inside/test.bin"] = std::string(1 << 20, 'x');
  write_archive(path, archive_write_add_filter_gzip, some);
  EXPECT_THAT(message(), HasSubstr("inside/test.bin is larger than"));
}

TEST(Cifar, ThePythonLayoutIsRecognised) {
  const TemporaryFolder folder;
  fs::create_directories(folder / "data/small-py");
  EXPECT_THAT(test::message_of<UserError>([&] { locate(small(), {folder / "data"}); }),
              AllOf(HasSubstr("small-py is the Python layout"), HasSubstr("put small.tar into ")));
}

// In the groups of CIFAR-100, fine labels 0 (apple), 1 (aquarium fish) and 2 (baby) lie in fruit and vegetables (4),
// fish (1) and people (14).
std::string two_label_records(int first, std::initializer_list<std::pair<int, int>> labels) {
  std::string bytes;
  for (const auto& [coarse, fine] : labels) {
    bytes += static_cast<char>(coarse);
    bytes += records(first, {fine});
    first += 50;
  }
  return bytes;
}

DatasetDescription small_100(const std::string& train) {
  return parse_description(
      "small.toml",
      "name = \"small\"\ntitle = \"Small\"\nformat = \"cifar-100\"\nsample_shape = [3, 2, 2]\nclasses = 3\nfolder = "
      "\"small\"\n[archive]\npattern = \"small.tar\"\nfolder = \"inside\"\n[[split]]\nname = \"train\"\nsamples = 3\n"
      "[[split.file]]\npattern = \"train.bin\"\ncontent_sha256 = \"" +
          sha256_hex(train) + "\"\n");
}

TEST(Cifar100, ReadsTheFineLabel) {
  const TemporaryFolder folder;
  const std::string train = two_label_records(0, {{14, 2}, {4, 0}, {1, 1}});
  write_files(folder / "data", {{"train.bin", train}});
  const PreparedDataset data = prepare(small_100(train), {folder / "data"}, folder / "cache", {});
  const CachedSplit& split = data.split("train");
  EXPECT_THAT(split.labels(), testing::ElementsAre(2, 0, 1));
  const auto bytes = split.column<FixedColumn>("features").as<uint8_t>();
  for (size_t i = 0; i < 3 * kVolume; ++i) EXPECT_EQ(bytes[i], i / kVolume * 50 + i % kVolume);
  EXPECT_TRUE(data.official()) << "the published file follows from the records, with its coarse labels";

  const TemporaryFolder packed;
  write_archive(packed / "small.tar.gz", archive_write_add_filter_gzip, {{"inside/train.bin", train}});
  const PreparedDataset unpacked = prepare(small_100(train), {packed.path()}, packed / "cache", {});
  EXPECT_THAT(unpacked.split("train").labels(), testing::ElementsAre(2, 0, 1));
  EXPECT_TRUE(unpacked.official());
}

TEST(Cifar100, IsNotOfficialWithOtherRecords) {
  const TemporaryFolder folder;
  write_files(folder / "data", {{"train.bin", two_label_records(1, {{14, 2}, {4, 0}, {1, 1}})}});
  const auto description = small_100(two_label_records(0, {{14, 2}, {4, 0}, {1, 1}}));
  EXPECT_FALSE(prepare(description, {folder / "data"}, folder / "cache", {}).official());
}

TEST(Cifar100, WrongFilesAreExplained) {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& train) {
    write_files(folder / "data", {{"train.bin", train}});
    return test::message_of<UserError>([&] { prepare(small_100(train), {folder / "data"}, folder / "cache", {}); });
  };
  EXPECT_THAT(message(two_label_records(0, {{14, 2}, {4, 3}, {1, 1}})),
              AllOf(HasSubstr("train.bin"), HasSubstr("label 3 of sample 1, expected 0 to 2")));
  EXPECT_THAT(message(two_label_records(0, {{14, 2}, {4, 0}, {2, 1}})),
              HasSubstr("coarse label 2 of sample 2 with fine label 1, expected 1"));
  EXPECT_THAT(message(records(0, {2, 0, 1})), HasSubstr("coarse label 2 of sample 0 with fine label 0, expected 4"))
      << "the layout of CIFAR-10";
  const std::string right = two_label_records(0, {{14, 2}, {4, 0}, {1, 1}});
  EXPECT_THAT(message(right.substr(0, 20)), HasSubstr("truncated, ends after 6 of 14 bytes of its record 1 of 3"));
  EXPECT_THAT(message(right + right), HasSubstr("goes on after its last record, at byte 42"));
}

TEST(Cifar100, TheDescriptionIsBuiltIn) {
  const DatasetDescription& cifar = find_description("cifar-100");
  EXPECT_EQ(cifar.classes, 100);
  EXPECT_EQ(cifar.archive.bytes, 168513733);
  for (const SplitSpec& split : cifar.splits) {
    ASSERT_EQ(split.files.size(), 1U);
    EXPECT_EQ(split.files[0].bytes, split.samples * 3074) << split.name;
  }
}

TEST(Cifar, TheDescriptionIsBuiltIn) {
  const DatasetDescription& cifar = find_description("cifar-10");
  EXPECT_EQ(cifar.splits[0].files.size(), 5U);
  EXPECT_EQ(cifar.archive.bytes, 170052171);
}

}  // namespace
}  // namespace mlbench::dataset
