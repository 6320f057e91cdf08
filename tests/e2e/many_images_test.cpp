// Needs <cstdio> and <cstdlib>.
#include "mlbench/image/images_test.h"

// 100,000 made JPEG files in 64 shards: how soon a second run has its first batch, and how much memory training takes.

#include <fmt/format.h>

#include <chrono>

#include "mlbench/base/environment.h"
#include "mlbench/data/workload.h"
#include "mlbench/dataset/prepare.h"
#include "mlbench/image/shards/many_images_test.h"

namespace mlbench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kBatch = 64, kStepsBefore = 20, kSteps = 400;
constexpr double kMostSeconds = 1;
// What 25,600 images may add to the memory of the first 1,280: entries of the mapped index. Their files have 130 MB.
constexpr int64_t kMostBytes = int64_t{16} << 20;

dataset::DatasetDescription description() {
  const std::string split = "container = \"tfrecord\"\n[[split.file]]\npattern = \"shards/train-*-of-*\"\n";
  return dataset::parse_description(
      "many.toml",
      fmt::format("name = \"many\"\ntitle = \"Many\"\nformat = \"images\"\nsample_shape = [3, 64, 64]\nclasses = {}\n"
                  "folder = \"many\"\n[[split]]\nname = \"train\"\nsamples = {}\nfirst_label = 1\n{}"
                  "[[split]]\nname = \"test\"\nsamples = {}\nfirst_label = 1\n{}",
                  image::test::kManyClasses, image::test::kManySamples, split, image::test::kManySamples, split));
}

dataset::PreparedDataset prepare(const fs::path& folder) {
  return dataset::prepare(description(), {folder.string()}, folder / "cache", {});
}

TEST(ManyImages, ASecondRunBeginsSoonAndItsMemoryStaysFlat) {
  const TemporaryFolder folder;
  // The first run is the child's.
  image::test::write_many_in_child(image::ContainerFormat::kTfrecord, folder.path(), [&] { prepare(folder.path()); });
  spec::TaskSpec task;
  task.batch_size = kBatch;
  task.data.sample_shape = {3, 64, 64};
  task.data.classes = image::test::kManyClasses;
  task.data.train_transform = {"random_resized_crop", "scale_255"};
  task.data.eval_transform = {"resize_center_crop", "scale_255"};

  const auto begin = std::chrono::steady_clock::now();
  const dataset::PreparedDataset data = prepare(folder.path());
  const auto workload = data::make_workload(task, data, 1, 42);
  const auto loader = workload->make_train_loader({.threads = available_cores()});
  EXPECT_EQ(loader->next().global_samples, kBatch);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(seconds.count(), kMostSeconds);

  for (int64_t step = 1; step < kStepsBefore; ++step) loader->next();
  const int64_t before = peak_rss_bytes();
  for (int64_t step = 0; step < kSteps; ++step) loader->next();
  const int64_t more = peak_rss_bytes() - before;
  EXPECT_LT(more, kMostBytes);
  fmt::print("first batch after {:.2f} s; {} bytes of memory, then {} more\n", seconds.count(), before, more);
}

}  // namespace
}  // namespace mlbench
