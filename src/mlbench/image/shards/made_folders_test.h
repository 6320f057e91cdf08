#pragma once

// For tests: folders of made images, and what lies in shards.

#include <filesystem>
#include <fstream>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "mlbench/image/images_test.h"
#include "mlbench/image/shards/shard_writer.h"

namespace mlbench::image::test {

// A PNG of 1 x 1 pixel.
inline std::string small_png() {
  return std::string("\x89PNG\r\n\x1A\n\0\0\0\x0DIHDR\0\0\0\1\0\0\0\1\x08\0\0\0\0\x3A\x7E\x9B\x55", 33) +
         std::string("\0\0\0\x0AIDAT\x78\x9C\x63\x60\0\0\0\2\0\1\x48\xAF\xA4\x71", 22) +
         std::string("\0\0\0\0IEND\xAE\x42\x60\x82", 12);
}

inline void put(const std::filesystem::path& file, const std::string& content) {
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << content;
}

// Images of three classes, all of other sizes. Names are not in ASCII alone, and longer than a header of tar holds.
inline void make_folder_of_images(const std::filesystem::path& root, int64_t images = 23) {
  const std::string classes[] = {"n01", "n02/deeper", "n03 \xC3\xA9"};
  for (int64_t number = 0; number < images; ++number) {
    std::string name = classes[number % 3] + "/" + std::to_string(number);
    if (number % 5 == 1) name += std::string(120, 'n') + "\xC3\xA9";
    const JpegKind& kind = jpeg_kinds()[static_cast<size_t>(number) % jpeg_kinds().size()];
    put(root / (name + ".JPEG"), number % 7 == 3 ? small_png() + std::string(static_cast<size_t>(number), '\0')
                                                 : patterned_jpeg(kind, {9 + number, 7}));
  }
}

// Key without its ending, label, bytes.
using Content = std::tuple<std::string, int64_t, std::string>;
inline std::vector<Content> contents_of(const SampleIndex& index) {
  const SampleFiles files(index);
  std::vector<Content> all;
  std::vector<std::byte> bytes;
  for (const Sample& sample : index.samples) {
    files.read(sample, bytes);
    std::string key = sample.key.ends_with(".JPEG") ? sample.key.substr(0, sample.key.size() - 5) : sample.key;
    all.emplace_back(std::move(key), sample.label,
                     std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  }
  return all;
}

inline ShardManifest shard_folder(const std::filesystem::path& from, const std::filesystem::path& to,
                                  ShardOptions options) {
  const SampleIndex index = index_image_folder(from);
  return write_shards(index, plan_shards(index, options, to));
}

}  // namespace mlbench::image::test
