// 100,000 made JPEG files in 64 shards: how long their index takes, and how much memory.

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <ctime>

#include "mlbench/base/environment.h"
#include "mlbench/image/shards/many_images_test.h"
#include "mlbench/image/shards/survey.h"

namespace mlbench::image {
namespace {

constexpr double kMostSeconds = 2;
// Above what the process has before: an index of one shard, and 4 bytes per sample. All samples have 500 MB.
constexpr int64_t kMostBytes = int64_t{32} << 20;

class IndexOfManySamples : public testing::TestWithParam<ContainerFormat> {};

TEST_P(IndexOfManySamples, TakesLittleTimeAndMemory) {
  const TemporaryFolder folder;
  test::write_many_in_child(GetParam(), folder.path());
  const int64_t before = peak_rss_bytes();
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t processor_begin = std::clock();
  const Survey found = survey(find_container({.paths = {folder / "shards"}}), {.threads = available_cores()});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  const double processor_s = static_cast<double>(std::clock() - processor_begin) / CLOCKS_PER_SEC;
  EXPECT_EQ(found.samples, test::kManySamples);
  EXPECT_EQ(found.kinds.colour_jpeg, test::kManySamples);
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
