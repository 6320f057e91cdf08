#include "mlbench/objects/object_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "mlbench/base/clock.h"
#include "mlbench/base/errors.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/relative_key.h"
#include "mlbench/base/text.h"
#include "mlbench/objects/cached_store.h"
#include "mlbench/objects/folder_store.h"
#include "mlbench/objects/s3_store.h"

namespace mlbench::objects {

Json to_json(const Counters& counters) {
  return {{"objects", counters.objects},
          {"reads", counters.reads},
          {"bytes", counters.bytes},
          {"copied_bytes", counters.copied_bytes},
          {"checked_bytes", counters.checked.bytes},
          {"check_s", to_seconds(counters.checked.ns)},
          {"requests", counters.requests},
          {"retries", counters.retries},
          {"cache_hits", counters.cache_hits},
          {"cache_misses", counters.cache_misses},
          {"cache_bytes", counters.cache_bytes},
          {"cache_checked_bytes", counters.cache_checked.bytes},
          {"cache_check_s", to_seconds(counters.cache_checked.ns)}};
}

std::unique_ptr<ObjectStore> open_store(const std::string& place, const StoreOptions& options) {
  if (is_store(place)) {
    std::unique_ptr<ObjectStore> store = make_s3_store(place, options);
    if (options.cache.empty()) return store;
    return std::make_unique<CachedStore>(std::move(store), options);
  }
  if (place.find("://") != std::string::npos) {
    throw UserError(fmt::format("'{}' is no place of objects: expected s3://BUCKET/PREFIX or a folder", place));
  }
  return make_folder_store(place);
}

bool is_store(std::string_view place) { return place.starts_with("s3://"); }

void check_key(std::string_view where, std::string_view key) {
  mlbench::check_key(where, key);
  if (std::ranges::count(split_at(key, '/'), ".") > 0) {
    throw UserError(fmt::format("{}: '{}': a path with the part '.'", where, printable(key, 100)));
  }
}

}  // namespace mlbench::objects
