#pragma once

// The prepared form of a data set: one file, which readers map into memory. Internal to dataset/.
//
// Layout (little endian; offsets are multiples of 4096, so that every section starts on a page):
//   0       header: the line "mlbench data cache, version V", one line of JSON (name, key, fingerprint, dtype, shape,
//           and for each split its name, samples and offsets), zeros up to 4096
//   then for each split in the description's order
//     features  samples * volume elements of the format's dtype, record after record in official order
//     labels    samples int64
//
// Everything in the header follows from the description, the key and the fingerprint, and the fingerprint follows from
// the records. So a cache is whole exactly when its size and header are what they would be if it were written now.

#include <filesystem>
#include <functional>
#include <string>

#include "mlbench/base/json.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/prepared_dataset.h"

namespace mlbench::dataset {

inline constexpr int kCacheVersion = 1;  // goes up when this layout or what a decoder produces changes

struct CacheId {
  const DatasetDescription& description;
  std::string generator;  // made data: name, version and seed of its generator; decoded files: ""
  std::string key;        // cache_key() of what the records are made from

  std::filesystem::path path_in(const std::filesystem::path& cache_dir) const;
};

// A key over the fields of `description` that determine the records, and over `origin`, which stands for their source:
// path, size and modification time of each source file, or the generator of made data.
std::string cache_key(const DatasetDescription& description, const Json& origin);

// Maps the cache of `id` in `cache_dir` where it is whole. The whole file is checked once per host and build
// (verified_mark.h). Otherwise calls `fill` once per split, in order, to make the cache, and maps that. Locks and
// errors are those of prepare(). `fill` must write every element; `making` is the progress line that is given before
// it.
using FillSplit = std::function<void(size_t split, const SplitBuffers& out)>;
PreparedDataset open_or_make_cache(const CacheId& id, const std::filesystem::path& cache_dir, const FillSplit& fill,
                                   const std::string& making, const Progress& progress);

}  // namespace mlbench::dataset
