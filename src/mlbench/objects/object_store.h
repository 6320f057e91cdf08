#pragma once

// Where the shards and files of a data set may lie: objects below one place, which is a folder or part of a bucket of
// an S3-compatible store. Keys are relative to the place, so an index of one holds for a copy of it elsewhere.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/check_cost.h"
#include "mlbench/base/json.h"

namespace mlbench::objects {

struct Object {
  std::string key;  // a relative path
  int64_t bytes = 0;
  std::string etag = {};  // changes with the content; "" where the place has none
  bool operator==(const Object&) const = default;
};

// What has been done so far, for records.
struct Counters {
  int64_t objects = 0;                       // that list() found
  int64_t reads = 0;                         // that were asked for
  int64_t bytes = 0;                         // of objects, as they came from the place; what came twice counts twice
  int64_t copied_bytes = 0;                  // by this program, behind the callback of libcurl or the system's read
  CheckCost checked = {};                    // MD5 of whole objects, compared with the ETag
  int64_t requests = 0;                      // to the store, lists and repeated ones included
  int64_t retries = 0;                       // of these: repeated after a failure that may pass
  int64_t cache_hits = 0, cache_misses = 0;  // blocks of the local cache
  int64_t cache_bytes = 0;                   // of objects, as they came from the local cache
  CheckCost cache_checked = {};              // CRC-32C of its blocks, made when kept and compared before the first use
};
Json to_json(const Counters& counters);

// All functions may be called on several threads at once.
class ObjectStore {
 public:
  virtual ~ObjectStore() = default;
  // The objects in order of their keys. Throws UserError for a key that check_key() refuses.
  virtual std::vector<Object> list() = 0;
  // Fills `into` with the bytes of the object from `offset` on. Blocks while all connections are in use. Throws
  // UserError where the object is no longer as listed (it has no such bytes, or another ETag) and where the store
  // refuses; CommError where it does not answer in time, IoError where the system refuses.
  virtual void read(const Object& object, int64_t offset, std::span<std::byte> into) = 0;
  virtual Counters counters() const = 0;
  // "s3", or the kind of file system (base/storage.h).
  virtual std::string kind() const = 0;
  // Whoever answers, without secrets: "https://s3.eu-central-1.amazonaws.com"; "" for a folder.
  virtual std::string endpoint() const = 0;
  // As the user gives it, for messages: "s3://BUCKET/PREFIX" or a path.
  virtual std::string place() const = 0;
};

struct StoreOptions {
  // "" stands for what the environment says: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, else Amazon's of the region.
  std::string endpoint = {};
  // "": AWS_REGION or AWS_DEFAULT_REGION, else that of the profile, else us-east-1.
  std::string region = {};
  // path or virtual; "": path where an endpoint was given.
  std::string style = {};
  int connections = 16;
  std::chrono::seconds silence{20};             // without a byte: the request is repeated
  std::chrono::milliseconds patience{120'000};  // for a read or a page of a list, with all that is repeated
  std::chrono::milliseconds first_pause{100};   // before the first repetition; doubled each time, up to 10 s
  int attempts = 8;                             // in a row that brought nothing
  bool compares = true;                         // the MD5 of whole objects with their ETag

  std::filesystem::path cache = {};         // a folder for blocks of objects; "": none
  int64_t cache_bytes = int64_t{64} << 30;  // the most that lies there
  int64_t block_bytes = int64_t{8} << 20;   // what is fetched and kept together
};

// Opens "s3://BUCKET[/PREFIX]", where PREFIX stands for a folder, or a folder of this machine. Nothing is sent before
// the first call. Throws UserError for a place or an option that is none.
std::unique_ptr<ObjectStore> open_store(const std::string& place, const StoreOptions& options);

// Whether a user means a store, "s3://...", and no folder.
bool is_store(std::string_view place);

// As the function of base/relative_key.h. It refuses a part '.', too, which libcurl would take out of an address.
void check_key(std::string_view where, std::string_view key);

}  // namespace mlbench::objects
