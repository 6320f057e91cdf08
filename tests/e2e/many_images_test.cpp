// Needs <cstdio> and <cstdlib>.
#include "mlbench/image/images_test.h"

// 100,000 made JPEG files in 64 shards: how soon a second run has its first batch, and how much memory training takes.

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>

#include "mlbench/base/environment.h"
#include "mlbench/data/workload.h"
#include "mlbench/dataset/prepare.h"
#include "mlbench/image/shards/shard_writer.h"

namespace mlbench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSamples = 100'000, kShards = 64, kClasses = 1000, kBatch = 64;
constexpr int64_t kStepsBefore = 20, kSteps = 400;
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
                  kClasses, kSamples, split, kSamples, split));
}

dataset::PreparedDataset prepare(const fs::path& folder) {
  return dataset::prepare(description(), {folder.string()}, folder / "cache", {});
}

// Eight images, of which the index takes each many times.
void write_many_images(const fs::path& folder) {
  image::SampleIndex index;
  index.shards = {folder / "images"};
  index.labels = kClasses;
  for (int64_t label = 0; label < kClasses; ++label) index.classes.push_back(fmt::format("n{:08}", label));
  std::string content;
  std::vector<image::Sample> images;
  for (int64_t number = 0; number < 8; ++number) {
    const std::string jpeg = image::test::patterned_jpeg(image::test::jpeg_kinds()[0], {96 + number, 96});
    images.push_back({0, std::ssize(content), std::ssize(jpeg), 0, ""});
    content += jpeg;
  }
  write_file_atomically(folder / "images", content);
  for (int64_t number = 0; number < kSamples; ++number) {
    image::Sample& sample = index.samples.emplace_back(images[static_cast<size_t>(number) % images.size()]);
    sample.label = number % kClasses;
    sample.key = fmt::format("{}/{}.JPEG", index.classes[static_cast<size_t>(sample.label)], number);
  }
  write_shards(index, plan_shards(index, {image::ContainerFormat::kTfrecord, kShards}, folder / "shards"));
}

// The first run is another process, so that its memory is not taken for that of the second.
void prepare_in_child(const fs::path& folder) {
  const pid_t child = fork();
  if (child == 0) {
    write_many_images(folder);
    prepare(folder);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
}

TEST(ManyImages, ASecondRunBeginsSoonAndItsMemoryStaysFlat) {
  const TemporaryFolder folder;
  prepare_in_child(folder.path());
  spec::TaskSpec task;
  task.batch_size = kBatch;
  task.data.sample_shape = {3, 64, 64};
  task.data.classes = kClasses;
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
