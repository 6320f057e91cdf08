// 100,000 made JPEG files in 64 shards: how long their index takes, and how much memory.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <ctime>

#include "mlbench/base/environment.h"
#include "mlbench/image/shards/made_folders_test.h"
#include "mlbench/image/shards/survey.h"

namespace mlbench::image {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSamples = 100'000, kShards = 64, kClasses = 1000;
constexpr double kMostSeconds = 2;
// Above what the process has before: an index of one shard, and 4 bytes per sample. All samples have 500 MB.
constexpr int64_t kMostBytes = int64_t{32} << 20;

// Eight images of about 5 kB, one behind the other in a file, of which the index takes each many times.
SampleIndex made_index(const fs::path& file) {
  SampleIndex index;
  index.shards = {file};
  index.labels = kClasses;
  for (int64_t label = 0; label < kClasses; ++label) index.classes.push_back(fmt::format("n{:08}", label));
  std::string content;
  std::vector<Sample> images;
  for (int64_t number = 0; number < 8; ++number) {
    const std::string jpeg = test::patterned_jpeg(test::jpeg_kinds()[0], {96 + number, 96});
    images.push_back({0, std::ssize(content), std::ssize(jpeg), 0, ""});
    content += jpeg;
  }
  test::put(file, content);
  for (int64_t number = 0; number < kSamples; ++number) {
    index.samples.push_back(images[static_cast<size_t>(number) % images.size()]);
    Sample& sample = index.samples.back();
    sample.label = number % kClasses;
    sample.key = fmt::format("{}/{}.JPEG", index.classes[static_cast<size_t>(sample.label)], number);
  }
  return index;
}

// In a child, so that its memory is not taken for that of the index.
void write_in_child(ContainerFormat format, const fs::path& folder) {
  const pid_t child = fork();
  if (child == 0) {
    const SampleIndex index = made_index(folder / "images");
    write_shards(index, plan_shards(index, {format, kShards}, folder / "shards"));
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
}

class IndexOfManySamples : public testing::TestWithParam<ContainerFormat> {};

TEST_P(IndexOfManySamples, TakesLittleTimeAndMemory) {
  const TemporaryFolder folder;
  write_in_child(GetParam(), folder.path());
  const int64_t before = peak_rss_bytes();
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t processor_begin = std::clock();
  const Survey found = survey(find_container({.paths = {folder / "shards"}}), {.threads = available_cores()});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const double processor_s = static_cast<double>(std::clock() - processor_begin) / CLOCKS_PER_SEC;
  EXPECT_EQ(found.samples, kSamples);
  EXPECT_EQ(found.kinds.colour_jpeg, kSamples);
  EXPECT_EQ(found.bad, 0);
  EXPECT_LT(seconds.count(), kMostSeconds);
  EXPECT_LT(peak_rss_bytes() - before, kMostBytes);
  fmt::print("{} of {} bytes: {:.2f} s, {:.2f} s of processor time, {} bytes of memory more\n", row_of(GetParam()).name,
             found.image_bytes, seconds.count(), processor_s, peak_rss_bytes() - before);
}

INSTANTIATE_TEST_SUITE_P(Formats, IndexOfManySamples,
                         testing::Values(ContainerFormat::kTar, ContainerFormat::kTfrecord));

}  // namespace
}  // namespace mlbench::image
