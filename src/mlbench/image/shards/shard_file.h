#pragma once

// One shard while it is written, in each format. Internal to image/shards/.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "mlbench/image/image.h"
#include "mlbench/image/shards/manifest.h"

namespace mlbench::image {

struct ShardSample {
  std::string_view key;
  int64_t label = 0;            // from 0
  std::string_view class_name;  // "" where it has none
  EncodedImage image;
  Format format = Format::kJpeg;  // what the image is
};

struct WrittenShard {
  int64_t bytes = 0;
  std::string sha256;
};

class ShardWriter {
 public:
  virtual ~ShardWriter() = default;
  virtual void add(const ShardSample& sample) = 0;
  // Writes what is left and flushes the file to the disk. The last call.
  virtual WrittenShard finish() = 0;
};

// Makes the file, which must not be there. All functions throw IoError with the path (DiskFull where there is no room).
std::unique_ptr<ShardWriter> make_shard_writer(ContainerFormat format, const std::filesystem::path& path);

}  // namespace mlbench::image
