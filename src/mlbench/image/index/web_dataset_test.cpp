#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>

#include "mlbench/base/test_error.h"
#include "mlbench/image/index/sample_index.h"
#include "mlbench/image/index/tar_test.h"

namespace mlbench::image {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Shard {
  explicit Shard(const std::string& content) { std::ofstream(path, std::ios::binary) << content; }
  SampleIndex index(int64_t labels = 10) const { return index_web_dataset({path}, labels); }
  TemporaryFolder folder;
  fs::path path = folder / "shard-000000.tar";
};

std::string error_of_tar(const std::string& content) {
  const Shard shard(content);
  return error_of([&] { shard.index(); });
}

const std::vector<FileInTar> kTwo = {
    {"./", "", AE_IFDIR}, {"./a/00.jpg", "first"}, {"./a/00.cls", "7\n"}, {"a/00.json", "{}"},
    {"__meta__", "x"},    {"README", "no dot"},    {"b.x/01.cls", "0"},   {"b.x/01.JPEG", std::string(600, 'z')}};

TEST(UnlabelledImages, OfATarFileAreThoseOfItsNames) {
  const Shard shard(tar_of({{"a/1.JPEG", "one"}, {"a/1.cls", "7"}, {"words.txt", "no image"}, {"2.png", "second"}}));
  const SampleIndex index = index_unlabelled(shard.path);
  ASSERT_EQ(index.samples.size(), 2U);
  EXPECT_EQ(index.samples[1].key, "2.png");
  std::vector<std::byte> bytes;
  SampleFiles(index).read(index.samples[1], bytes);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "second");
}

TEST(WebDataset, SamplesLieWhereTheIndexSays) {
  for (const auto set :
       {archive_write_set_format_ustar, archive_write_set_format_pax, archive_write_set_format_gnutar}) {
    const Shard shard(tar_of(kTwo, set));
    const SampleIndex index = shard.index();
    ASSERT_EQ(index.samples.size(), 2U);
    EXPECT_EQ(index.labels, 10);
    EXPECT_EQ(index.samples[0].key, "a/00");
    EXPECT_EQ(index.samples[0].label, 7);
    EXPECT_EQ(index.samples[1].key, "b.x/01");
    EXPECT_EQ(index.samples[1].label, 0);
    const SampleFiles files(index);
    std::vector<std::byte> bytes;
    files.read(index.samples[0], bytes);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), "first");
    files.read(index.samples[1], bytes);
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()), std::string(600, 'z'));
  }
}

// In ustar the first content lies behind the folder's header and its own; a longer name gets an extended header in pax.
TEST(WebDataset, OffsetsByHand) {
  EXPECT_EQ(Shard(tar_of(kTwo)).index().samples[0].offset, 1024);
  const std::string longest = std::string(200, 'n') + ".jpg";
  const std::string file =
      tar_of({{longest, "long"}, {std::string(200, 'n') + ".cls", "1"}}, archive_write_set_format_pax);
  const SampleIndex index = Shard(file).index();
  ASSERT_EQ(index.samples.size(), 1U);
  EXPECT_EQ(index.samples[0].offset, static_cast<int64_t>(file.find("long")));
  EXPECT_EQ(index.samples[0].offset, 1536);
}

TEST(WebDataset, SeveralShards) {
  const Shard one(tar_of({{"0.jpg", "a"}, {"0.cls", "1"}})), two(tar_of({{"0.png", "b"}, {"0.cls", "2"}}));
  const SampleIndex index = index_web_dataset({one.path, two.path}, 3);
  EXPECT_THAT(index.samples, ElementsAre(Sample{0, 512, 1, 1, "0"}, Sample{1, 512, 1, 2, "0"}));
}

TEST(WebDataset, IncompleteSamplesAreRefused) {
  EXPECT_THAT(error_of_tar(tar_of({{"0.jpg", "a"}})), HasSubstr("0: has an image, but no label"));
  EXPECT_THAT(error_of_tar(tar_of({{"0.cls", "1"}})), HasSubstr("0: has a label (.cls), but no image"));
  EXPECT_THAT(error_of_tar(tar_of({{"0.jpg", "a"}, {"1.jpg", "a"}, {"0.cls", "1"}})), HasSubstr("but no label"));
  EXPECT_THAT(error_of_tar(tar_of({{"0.jpg", "a"}, {"0.JPG", "a"}, {"0.cls", "1"}})), HasSubstr("0: has two images"));
  EXPECT_THAT(error_of_tar(tar_of({{"0.jpg", "a"}, {"0.cls", "10"}})), HasSubstr("label 10, expected 0 to 9"));
  EXPECT_THAT(error_of_tar(tar_of({{"0.jpg", "a"}, {"0.cls", "cat"}})), HasSubstr("label 'cat', expected"));
  EXPECT_THAT(error_of_tar(tar_of({{"0.jpg", "a"}, {"0.cls", std::string(65, '1')}})), HasSubstr("label '', expected"));
  EXPECT_THAT(error_of_tar(tar_of({{"0.jpg", ""}, {"0.cls", "1"}})), HasSubstr("image of 0 bytes"));
  EXPECT_THAT(error_of_tar(tar_of({{"words.txt", "a"}})), HasSubstr("hold no images"));
}

TEST(WebDataset, NamesAndKindsOfMembersAreChecked) {
  for (const std::string name : {"../0.jpg", "a/../../0.jpg", "/etc/0.jpg", "a\n0.jpg", "a\x1b.jpg"}) {
    EXPECT_NE(error_of_tar(tar_of({{name, "a"}, {"0.cls", "1"}})), "no error") << name;
  }
  EXPECT_THAT(error_of_tar(tar_of({{"../0.jpg", "a"}})), HasSubstr("'../0.jpg': a path that leaves its folder"));
  EXPECT_THAT(error_of_tar(tar_of({{"0.jpg", "", AE_IFLNK, "/etc/passwd"}})), HasSubstr("0.jpg: a link, a device"));
  EXPECT_THAT(error_of_tar(tar_of({{"0.jpg", "", AE_IFREG, "1.jpg"}})), HasSubstr("0.jpg: a link, a device"));
  EXPECT_THAT(error_of_tar(tar_of({{"0.jpg", "", AE_IFIFO}})), HasSubstr("0.jpg: a link, a device"));
}

// Writes a size into a header of ustar, and its checksum anew.
std::string with_tar_size(std::string file, const std::string& octal) {
  file.replace(124, 12, octal + std::string(12 - octal.size(), ' '));
  file.replace(148, 8, 8, ' ');
  unsigned sum = 0;
  for (size_t i = 0; i < 512; ++i) sum += static_cast<unsigned char>(file[i]);
  file.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
  return file;
}

TEST(WebDataset, LengthsThatLieAreRefused) {
  const std::string good = tar_of({{"0.jpg", "abc"}, {"0.cls", "1"}});
  EXPECT_EQ(error_of_tar(with_tar_size(good, "00000000003")), "no error");
  EXPECT_THAT(error_of_tar(with_tar_size(good, "77777777777")), HasSubstr("bytes at byte 512, but the file has"));
  // Swallows the label: three blocks.
  EXPECT_THAT(error_of_tar(with_tar_size(good, "00000003000")), HasSubstr("but no label"));
  for (size_t bytes = 1; bytes < 1537; bytes += 100)
    EXPECT_NE(error_of_tar(good.substr(0, bytes)), "no error") << bytes;
}

TEST(WebDataset, APackedFileIsRefused) {
  EXPECT_THAT(error_of_tar("\x1F\x8B\x08 and so on"), HasSubstr("a packed file has to be unpacked first"));
  EXPECT_THAT(error_of([] { index_web_dataset({"/nowhere/x.tar"}, 3); }), HasSubstr("no such file"));
  EXPECT_THAT(error_of([] { index_web_dataset({"/dev/zero"}, 3); }), HasSubstr("expected a tar file"));
}

}  // namespace
}  // namespace mlbench::image
