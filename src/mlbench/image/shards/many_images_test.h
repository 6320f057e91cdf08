#pragma once

// For tests: 100,000 samples in 64 shards.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "mlbench/image/shards/made_folders_test.h"

namespace mlbench::image::test {

inline constexpr int64_t kManySamples = 100'000, kManyShards = 64, kManyClasses = 1000;

// Eight images of about 5 kB, one behind the other in a file, of which the index takes each many times.
inline SampleIndex index_of_many(const std::filesystem::path& file) {
  SampleIndex index;
  index.shards = {file};
  index.labels = kManyClasses;
  for (int64_t label = 0; label < kManyClasses; ++label) index.classes.push_back(fmt::format("n{:08}", label));
  std::string content;
  std::vector<Sample> images;
  for (int64_t number = 0; number < 8; ++number) {
    const std::string jpeg = patterned_jpeg(jpeg_kinds()[0], {96 + number, 96});
    images.push_back({0, std::ssize(content), std::ssize(jpeg), 0, ""});
    content += jpeg;
  }
  put(file, content);
  for (int64_t number = 0; number < kManySamples; ++number) {
    index.samples.push_back(images[static_cast<size_t>(number) % images.size()]);
    Sample& sample = index.samples.back();
    sample.label = number % kManyClasses;
    sample.key = fmt::format("{}/{}.JPEG", index.classes[static_cast<size_t>(sample.label)], number);
  }
  return index;
}

// Writes the shards below `folder`, and then calls `more`, in a child, so that its memory is not taken for that of the
// test.
inline void write_many_in_child(
    ContainerFormat format, const std::filesystem::path& folder, const std::function<void()>& more = [] {}) {
  const pid_t child = fork();
  if (child == 0) {
    const SampleIndex index = index_of_many(folder / "images");
    write_shards(index, plan_shards(index, {format, kManyShards}, folder / "shards"));
    more();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(status, 0);
}

}  // namespace mlbench::image::test
