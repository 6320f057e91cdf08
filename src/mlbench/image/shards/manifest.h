#pragma once

// Shards of images: the files that a data set is packed into, and the manifest that lies beside those written here.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::image {

enum class ContainerFormat { kFolder, kTar, kTfrecord };

struct ContainerFormatRow {
  ContainerFormat format;
  std::string_view name;    // in options and JSON
  std::string_view ending;  // of the names of shards that are written
};
inline constexpr ContainerFormatRow kContainerFormats[] = {
    {ContainerFormat::kFolder, "folder", ""},
    {ContainerFormat::kTar, "tar", ".tar"},
    {ContainerFormat::kTfrecord, "tfrecord", ""},
};
const ContainerFormatRow& row_of(ContainerFormat format);
// Throws UserError with the valid names.
ContainerFormat container_format_named(std::string_view name);
// What shards that are written here call the first class: 1 in records, as TensorFlow's scripts, where 0 is "no class".
int64_t first_label_of(ContainerFormat format);

inline constexpr const char* kManifestFile = "shards.json";
inline constexpr const char* kClassesFile = "classes.txt";

// What a folder of shards holds, in the file kManifestFile of it (api/shards.schema.json).
struct ShardManifest {
  struct Shard {
    std::string file;
    int64_t samples = 0, bytes = 0;
    std::string sha256;
    bool operator==(const Shard&) const = default;
  };
  ContainerFormat format = ContainerFormat::kTar;
  int64_t samples = 0, classes = 0;
  int64_t first_label = 0;       // what the first class is called in the shards
  std::optional<uint64_t> seed;  // of the shuffle; empty: the samples are in order
  std::vector<Shard> shards;
  bool operator==(const ShardManifest&) const = default;
};
Json to_json(const ShardManifest& manifest);
// Throws UserError (path, what is wrong), also where a shard is not a file of the same folder; throws IoError.
ShardManifest read_manifest(const std::filesystem::path& file);

// The classes of a file with one on each line, which is the number of its label. Throws UserError for a class that
// stands twice, and as check_key() does.
std::vector<std::string> read_classes(const std::filesystem::path& file);

// "NAME-00000-of-00064", with the format's ending.
std::string shard_name(std::string_view name, int64_t shard, int64_t shards, ContainerFormat format);

}  // namespace mlbench::image
