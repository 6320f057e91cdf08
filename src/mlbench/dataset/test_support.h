#pragma once

// A small data set on disk for tests of dataset/ and of what reads caches.

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/dataset/description.h"

namespace mlbench::dataset::test {

inline std::string big_endian(uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

// The content of an idx file of unsigned bytes.
inline std::string idx(const std::vector<uint32_t>& extents, const std::string& bytes) {
  std::string text = big_endian(0x0800 + static_cast<uint32_t>(extents.size()));
  for (const uint32_t extent : extents) text += big_endian(extent);
  return text + bytes;
}

inline std::string gzip(const std::string& content) {
  z_stream stream{};
  if (deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) throw std::runtime_error("zlib");
  std::string packed(deflateBound(&stream, content.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) throw std::runtime_error("zlib");
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

inline void write_file(const std::filesystem::path& path, const std::string& content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

// The data set "tiny" has images of 4 x 5, 3 classes, 7 training and 4 test samples.
inline constexpr uint32_t kTinyTrain = 7, kTinyTest = 4;

inline std::string tiny_pixels(const std::string& split) {
  const uint32_t samples = split == "train" ? kTinyTrain : kTinyTest;
  std::string bytes;
  for (uint32_t i = 0; i < samples * 20; ++i) bytes += static_cast<char>((i * 37 + (split == "train" ? 0 : 11)) % 256);
  return bytes;
}
inline std::string tiny_labels(const std::string& split) {
  return split == "train" ? std::string{0, 1, 2, 0, 1, 2, 1} : std::string{2, 1, 0, 1};
}

inline std::string tiny_toml(const std::string& fingerprint = "", const std::string& url = "",
                             const std::string& train_images_sha256 = "") {
  const auto file = [&](const std::string& name, const std::string& sha256) {
    return "[[split.file]]\npattern = \"" + name + "\"\n" +
           (url.empty() ? "" : "url = \"" + url + "/" + name + ".gz\"\n") +
           (sha256.empty() ? "" : "sha256 = \"" + sha256 + "\"\n");
  };
  return "name = \"tiny\"\ntitle = \"Tiny\"\nformat = \"idx\"\nsample_shape = [1, 4, 5]\nclasses = 3\nfolder = "
         "\"tiny\"\n" +
         (fingerprint.empty() ? "" : "fingerprint = \"" + fingerprint + "\"\n") +
         "[[split]]\nname = \"train\"\nsamples = 7\n" + file("train-images", train_images_sha256) +
         file("train-labels", "") + "[[split]]\nname = \"test\"\nsamples = 4\n" + file("test-images", "") +
         file("test-labels", "");
}
inline DatasetDescription tiny(const std::string& fingerprint = "") {
  return parse_description("tiny.toml", tiny_toml(fingerprint));
}

// Writes all four files of "tiny" into `folder`, packed with gzip or plain.
inline void write_tiny(const std::filesystem::path& folder, bool packed = true) {
  const auto write = [&](const std::string& name, const std::string& content) {
    if (packed) {
      write_file(folder / (name + ".gz"), gzip(content));
    } else {
      write_file(folder / name, content);
    }
  };
  for (const std::string split : {"train", "test"}) {
    const uint32_t samples = split == "train" ? kTinyTrain : kTinyTest;
    write(split + "-images", idx({samples, 4, 5}, tiny_pixels(split)));
    write(split + "-labels", idx({samples}, tiny_labels(split)));
  }
}

// Runs `action` and returns the text of the Error that it throws. The test fails where it throws nothing or another
// type.
template <typename Error, typename Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another type of exception: " << error.what();
    return "";
  }
  ADD_FAILURE() << "no exception";
  return "";
}

}  // namespace mlbench::dataset::test
