#include "mlbench/dataset/stored_shards.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/own_variables.h"
#include "mlbench/base/paths.h"
#include "mlbench/base/system_error.h"
#include "mlbench/spec/collectives.h"

namespace mlbench::dataset {

namespace {

constexpr int64_t kPieceBytes = int64_t{8} << 20;  // of a copy

template <typename Call>
auto answered(const Call& call) {
  try {
    return call();
  } catch (const CommError& error) {
    throw IoError(error.what());
  }
}

}  // namespace

void StoredShards::read(size_t shard, int64_t offset, std::span<std::byte> into) const {
  answered([&] { store->read(objects.at(shard), offset, into); });
}

void StoredShards::copy(size_t shard, const std::filesystem::path& path) const {
  const FileDescriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) throw_system_error("cannot write " + path.string(), errno);
  const int64_t bytes = objects.at(shard).bytes;
  std::vector<std::byte> piece;
  for (int64_t offset = 0; offset < bytes; offset += std::ssize(piece)) {
    piece.resize(static_cast<size_t>(std::min(kPieceBytes, bytes - offset)));
    read(shard, offset, piece);
    write_all(file.get(), {reinterpret_cast<const char*>(piece.data()), piece.size()}, path.string());
  }
}

std::string StoredShards::address(size_t shard) const {
  const std::string place = store->place();
  return place + (place.ends_with('/') ? "" : "/") + objects.at(shard).key;
}

Json StoredShards::state() const {
  Json state = Json::array();
  for (size_t shard = 0; shard < objects.size(); ++shard) {
    const objects::Object& object = objects[shard];
    if (object.etag.empty()) {
      throw UserError(address(shard) + ": the store lists no ETag, so a change of this object would not be noticed");
    }
    state.push_back({address(shard), object.bytes, object.etag});
  }
  return state;
}

std::shared_ptr<objects::ObjectStore> open_data_store(const std::string& place, int connections) {
  objects::StoreOptions options;
  options.connections = connections;
  options.cache = environment_variable(variables::kObjectCache).value_or("");
  if (const auto limit = environment_variable(variables::kObjectCacheLimit)) {
    options.cache_bytes = spec::parse_size(*limit, variables::kObjectCacheLimit);
  }
  return objects::open_store(place, options);
}

std::vector<objects::Object> list_objects(objects::ObjectStore& store) {
  return answered([&] { return store.list(); });
}

}  // namespace mlbench::dataset
