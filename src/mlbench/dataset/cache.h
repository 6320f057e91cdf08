#pragma once

// The prepared form of a data set: one file, mapped. Internal to dataset/.
//
// Layout (little endian; offsets are multiples of 4096, so that every section starts on a page):
//   0       header: the line "mlbench data cache, version V", one line of JSON (name, key, fingerprint, splits with
//           dtype, shape, samples and offsets), zeros up to 4096
//   then for each split in the description's order
//     features  samples * volume elements of the split's dtype, record after record in official order
//     labels    samples int64
//
// Everything in the header follows from the description, the key and the fingerprint, and the fingerprint from the
// records: a cache is whole exactly when size and header are what they would be if it were written now.

#include <filesystem>
#include <functional>
#include <string>

#include "mlbench/base/json.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/prepared_dataset.h"

namespace mlbench::dataset {

inline constexpr int kCacheVersion = 1;  // counts changes of this layout and of what decoders produce

struct CacheId {
  const DatasetDescription& description;
  std::string generator;  // of made data: name, version and seed; "" of decoded files
  std::string key;        // of what the records are made from

  std::filesystem::path path_in(const std::filesystem::path& cache_dir) const;
};

// A key from anything that determines the records, the description's own fields included.
std::string cache_key(const DatasetDescription& description, const Json& origin);

// Maps the cache that lies there, checked as a whole once per host and build (verified_mark.h), or has `fill` make it
// (once per split, in order) and maps that. Contract: prepare(). `fill` writes every element; `making` is the
// progress line for that case.
using FillSplit = std::function<void(size_t split, const SplitBuffers& out)>;
PreparedDataset open_or_make_cache(const CacheId& id, const std::filesystem::path& cache_dir, const FillSplit& fill,
                                   const std::string& making, const Progress& progress);

}  // namespace mlbench::dataset
