#pragma once

// Shards of encoded images that lie in an object store, and are no files of this machine.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mlbench/base/check_cost.h"
#include "mlbench/base/json.h"
#include "mlbench/objects/object_store.h"

namespace mlbench::dataset {

// Splits of one data set share their store. A place of objects that does not answer is an IoError here, for CommError
// stands for the ranks' own communication.
struct StoredShards {
  std::shared_ptr<objects::ObjectStore> store;
  std::vector<objects::Object> objects = {};
  // What comparing images with the SHA-256 of the index has cost.
  std::shared_ptr<CheckMeter> images_checked = std::make_shared<CheckMeter>();

  // Fills `into` with bytes of a shard. Throws UserError and IoError that name the object (ObjectStore::read).
  void read(size_t shard, int64_t offset, std::span<std::byte> into) const;
  // Copies a whole shard into `file`, which is made or replaced.
  void copy(size_t shard, const std::filesystem::path& file) const;
  // "s3://BUCKET/PREFIX/KEY"
  std::string address(size_t shard) const;
  // What stands for the content: address, bytes and ETag of each shard. Throws UserError for a shard without an ETag.
  Json state() const;
};

// Opens the place with the cache that MLBENCH_OBJECT_CACHE names, if any. Throws UserError for a place, an endpoint or
// a limit that is none.
std::shared_ptr<objects::ObjectStore> open_data_store(const std::string& place,
                                                      int connections = objects::StoreOptions().connections);
// What the store lists. Throws UserError, and IoError where it does not answer.
std::vector<objects::Object> list_objects(objects::ObjectStore& store);

}  // namespace mlbench::dataset
