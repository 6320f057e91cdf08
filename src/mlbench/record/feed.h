#pragma once

// How steps were fed with data: the ring of batches that are decoded ahead, what was read, and what comparing checksums
// cost. A rank says it in its events, and the record has it of all ranks.

#include <cstdint>
#include <optional>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::record {

struct Epoch;
struct RankSpool;
struct Storage;

// The ring of batches that are decoded ahead of the step (data/ring_gauge.h).
struct Ring {
  int64_t capacity = 0;  // the most batches that may be ready
  int64_t takes = 0;     // batches that steps took
  int64_t waits = 0;     // of these: none was ready, so that the step waited
  double mean_fill = 0;  // batches that were ready at a take
  int64_t min_fill = 0;
  Json others = nullptr;
};

struct CheckedBytes {
  int64_t bytes = 0;
  double seconds = 0;  // that threads took for it, in all
  Json others = nullptr;
};
// What was compared with a checksum. Empty where nothing was.
struct Checks {
  std::optional<CheckedBytes> images;        // from an object store: SHA-256, with the index
  std::optional<CheckedBytes> objects;       // whole ones, or blocks that are: MD5, with the ETag
  std::optional<CheckedBytes> cache_blocks;  // of the cache of objects: CRC-32C, made or compared
  std::optional<CheckedBytes> records;       // of TFRecord files, when the index was made: CRC-32C
  Json others = nullptr;
};

Json to_json(const Ring& ring);
Json to_json(const Checks& checks);

// Adds what all ranks have read: in each of the `epochs`, and in all segments to `storage`. `ranks` are their spools by
// segment. A sum of which a rank does not say its part stays empty. Returns the rings of all ranks, where they have
// some.
std::optional<Ring> tell_feed(const std::vector<std::vector<RankSpool>>& ranks, std::vector<Epoch>& epochs,
                              Storage& storage);

}  // namespace mlbench::record
