#pragma once

// Packs the samples of an index into shards: TensorFlow's record files of tf.train.Example, or tar files with
// WebDataset's names. The bytes of the images stay as they are.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/image/index/sample_index.h"
#include "mlbench/image/shards/manifest.h"

namespace mlbench::image {

struct ShardOptions {
  ContainerFormat format = ContainerFormat::kTfrecord;  // or kTar
  int64_t shards = 1;                                   // at most kMostShards
  std::string name = "train";                           // begins the names of the shards: check_name() of base/paths.h
  std::optional<uint64_t> seed = 0;                     // of the shuffle; empty: the order of the index
};
inline constexpr int64_t kMostShards = 100'000;

// The samples of one shard are order[begin] to order[end - 1]; their numbers differ by at most one from shard to shard.
struct ShardRange {
  int64_t begin = 0, end = 0;
};

struct ShardPlan {
  ShardOptions options;
  std::filesystem::path output;  // absolute, without links; absent, or an empty folder
  std::vector<int64_t> order;    // numbers of the samples
  std::vector<ShardRange> shards;
  std::vector<std::string> keys;  // by the number of the sample: in a tar file without the ending
};

// Looks at all that can be known before something is written. Throws UserError (what, what is expected): for an output
// folder that is not empty, is another file system, or lies in a folder of the index; for fewer samples than shards;
// for names of which a tar file would make the same key, or another one.
ShardPlan plan_shards(const SampleIndex& index, const ShardOptions& options, const std::filesystem::path& output);

// Called behind each sample, with numbers from the beginning. What it throws ends the writing.
using ShardProgress = std::function<void(int64_t samples, int64_t image_bytes)>;

// Writes the folder: shards, kClassesFile and kManifestFile. All is written under a temporary name beside the output
// and renamed at the end, so that a reader sees all or nothing. An exception removes it; what a killed process left
// is removed by the next call with the same output. Throws UserError for a file that is neither JPEG nor PNG, and where
// another process writes the same; throws IoError (DiskFull where there is no room).
ShardManifest write_shards(const SampleIndex& index, const ShardPlan& plan, const ShardProgress& progress = {});

}  // namespace mlbench::image
