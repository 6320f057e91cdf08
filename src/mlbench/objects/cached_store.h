#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>

#include "mlbench/base/check_cost.h"
#include "mlbench/objects/object_store.h"

namespace mlbench::objects {

// A store whose objects are kept on a local disk, in blocks of one size. A block is a file, named after a hash of
// endpoint, place, key, ETag, sizes and its number, with that name and a CRC-32C behind its bytes. Several processes
// may share the folder: a block appears by renaming, whoever writes holds a lock, and a process compares name, size and
// checksum before it reads from a block for the first time. What differs is removed and fetched again. When there is no
// room, the blocks that were used longest ago go. Objects without an ETag are not kept.
//
// A read that wants a part of a block that is not there waits for the whole block. Threads that want the same block
// fetch it once; two processes may both fetch it. A full disk keeps nothing more and is no error.
class CachedStore final : public ObjectStore {
 public:
  // Throws UserError for a limit that has no room for a block, IoError where the folder cannot be written.
  CachedStore(std::unique_ptr<ObjectStore> store, const StoreOptions& options);
  ~CachedStore() override;

  std::vector<Object> list() override { return store_->list(); }
  void read(const Object& object, int64_t offset, std::span<std::byte> into) override;
  Counters counters() const override;
  std::string kind() const override { return store_->kind(); }
  std::string endpoint() const override { return store_->endpoint(); }
  std::string place() const override { return store_->place(); }

 private:
  struct Block;  // which part of which object, and where its file is

  void read_block(const Block& block, int64_t from, std::span<std::byte> into);
  bool read_kept(const Block& block, int64_t from, std::span<std::byte> into);
  bool has_checked(const Block& block, uint64_t inode);
  bool check_and_copy(int file, const Block& block, int64_t from, std::span<std::byte> into);
  void fetch(const Block& block, int64_t from, std::span<std::byte> into);
  std::string trailer_of(const Block& block, std::span<const std::byte> bytes);
  void keep(const Block& block, std::span<const std::byte> bytes);
  void make_room(int lock, int64_t bytes);

  const std::unique_ptr<ObjectStore> store_;
  const std::filesystem::path folder_;
  const int64_t most_bytes_, block_bytes_;
  std::atomic<int64_t> reads_{0}, hits_{0}, misses_{0}, copied_bytes_{0}, kept_bytes_{0};
  CheckMeter checksums_;

  std::mutex mutex_;  // guards the next three
  std::condition_variable fetched_;
  std::set<std::string> in_flight_;  // names of blocks that a thread fetches
  std::unordered_map<std::string, uint64_t>
      checked_;         // names of blocks that were compared, and the inodes of their files
  std::mutex writing_;  // as the lock of the folder, among threads
};

}  // namespace mlbench::objects
