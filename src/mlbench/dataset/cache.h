#pragma once

// The prepared form of a data set: one file, which readers map into memory. Internal to dataset/.
//
// Layout (little endian; values and offsets begin at multiples of 4096, so that each starts on a page):
//   0       header: the line "mlbench data cache, version V", one line of JSON (name, key, fingerprint, and for each
//           split its name, samples and columns, with where these begin), zeros up to 4096
//   then, split after split in the description's order, for each of its columns, with records in official order
//     values  samples * volume elements, or
//     bytes   offsets int64 [samples + 1]: record i is the column's bytes [offsets[i], offsets[i + 1])
//     sparse  the same of entries (base/sparse_rows.h)
//   then, in the same order and without gaps, the bytes of the columns of bytes, and the entries of sparse rows
//
// Everything in the header follows from the description, the key, the fingerprint and the offsets, and the fingerprint
// follows from the records. So a cache is whole exactly when its size and header are what they would be if it were
// written now.

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/dataset/description.h"
#include "mlbench/dataset/format.h"
#include "mlbench/dataset/prepared_dataset.h"

namespace mlbench::dataset {

inline constexpr int kCacheVersion = 2;  // goes up when this layout or what a decoder produces changes

// A column of a cache that may be still to be made.
struct ColumnSpec {
  enum class Type : uint8_t { kValues, kBytes, kSparse };  // FixedColumn, BytesColumn, SparseColumn
  std::string name;
  Type type = Type::kValues;
  std::vector<int64_t> shape = {};  // of a record; of values, their type, too
  DType dtype = DType::kUInt8;
};
// The columns of data whose format decodes samples (format.h): "features" and "labels".
std::vector<ColumnSpec> sample_columns(const DatasetDescription& description);

struct CacheId {
  const DatasetDescription& description;
  std::vector<ColumnSpec> columns;  // of each split
  std::string generator;            // made data: name, version and seed of its generator; decoded files: ""
  std::string key;                  // cache_key() of what the records are made from
  // CachedSplit::shards and CachedSplit::stored of each split, which are no part of the file.
  std::vector<std::vector<std::filesystem::path>> shards = {};
  std::vector<std::shared_ptr<const StoredShards>> stored = {};

  std::filesystem::path path_in(const std::filesystem::path& cache_dir) const;
};

// A key over the fields of `description` that determine the records, and over `origin`, which stands for their source:
// path, size and modification time of each source file, or the generator of made data.
std::string cache_key(const DatasetDescription& description, const Json& origin);
// What stands for a source file in such a key. Throws filesystem_error.
Json state_of_file(const std::filesystem::path& file);

// Takes the records of one split of a new cache.
class SplitWriter {
 public:
  virtual ~SplitWriter() = default;
  // The memory of all records of a column of values. Every element must be written.
  virtual std::span<std::byte> values(std::string_view column) = 0;
  // Adds the next record of a column of bytes or of sparse rows, of which there must be as many as samples. Such
  // columns are written one after the other, in their order. Throws IoError where the disk is full.
  virtual void append(std::string_view column, std::span<const std::byte> record) = 0;
};
// The memory of the columns that sample_columns() names.
SplitBuffers sample_buffers(SplitWriter& split);

// Maps the cache of `id` in `cache_dir` where it is whole. The whole file is checked once per host and build
// (verified_mark.h). Otherwise calls `fill` once per split, in order, to make the cache, and maps that. Locks and
// errors are those of prepare(). `making` is the progress line that is given before `fill`.
using FillSplit = std::function<void(size_t split, SplitWriter& out)>;
PreparedDataset open_or_make_cache(const CacheId& id, const std::filesystem::path& cache_dir, const FillSplit& fill,
                                   const std::string& making, const Progress& progress);

}  // namespace mlbench::dataset
