#include "mlbench/objects/cached_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/system_error.h"
#include "mlbench/base/temporary_folders.h"
#include "mlbench/base/to_number.h"
#include "mlbench/tfrecord/records.h"

namespace mlbench::objects {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostChecked = 100'000;  // names that are remembered
constexpr size_t kNameBytes = 64, kTrailerBytes = kNameBytes + sizeof(uint32_t);
constexpr std::chrono::milliseconds kLockTimeout{60'000};
constexpr const char* kLockName = ".lock";  // its content: the bytes of all blocks

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// Fills `into` from the file; false where it ends before.
bool read_at(int file, int64_t offset, std::span<std::byte> into, const fs::path& path) {
  for (size_t done = 0; done < into.size();) {
    const ssize_t got = pread(file, into.data() + done, into.size() - done, offset + static_cast<int64_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_system_error("cannot read " + path.string(), errno);
    if (got == 0) return false;
    done += static_cast<size_t>(got);
  }
  return true;
}

}  // namespace

struct CachedStore::Block {
  const Object& object;
  int64_t offset = 0, bytes = 0;  // in the object
  std::string name;
  fs::path path;
};

CachedStore::CachedStore(std::unique_ptr<ObjectStore> store, const StoreOptions& options)
    : store_(std::move(store)),
      folder_(fs::absolute(options.cache)),
      most_bytes_(options.cache_bytes),
      block_bytes_(options.block_bytes) {
  MLBENCH_CHECK(block_bytes_ > 0, "a block has bytes");
  if (most_bytes_ < block_bytes_ + static_cast<int64_t>(kTrailerBytes)) {
    throw UserError(
        fmt::format("a cache of {} bytes: expected room for a block of {} bytes", most_bytes_, block_bytes_));
  }
  make_folder(folder_);
}

CachedStore::~CachedStore() = default;

Counters CachedStore::counters() const {
  Counters counters = store_->counters();
  counters.reads = reads_;
  counters.copied_bytes += copied_bytes_;
  counters.cache_hits = hits_;
  counters.cache_misses = misses_;
  counters.cache_bytes = kept_bytes_;
  counters.cache_checked = checksums_.so_far();
  return counters;
}

void CachedStore::read(const Object& object, int64_t offset, std::span<std::byte> into) {
  ++reads_;
  if (object.etag.empty() || offset < 0 || std::ssize(into) > object.bytes - offset) {
    return store_->read(object, offset, into);  // which refuses a range that is none
  }
  while (!into.empty()) {
    const int64_t number = offset / block_bytes_, begin = number * block_bytes_;
    Block block{object, begin, std::min(block_bytes_, object.bytes - begin), {}, {}};
    block.name = sha256_hex(
        Json({store_->endpoint(), store_->place(), object.key, object.etag, object.bytes, block_bytes_, number})
            .dump());
    block.path = folder_ / block.name;
    const auto count = static_cast<size_t>(std::min<int64_t>(std::ssize(into), begin + block.bytes - offset));
    read_block(block, offset - begin, into.first(count));
    into = into.subspan(count);
    offset += static_cast<int64_t>(count);
  }
}

void CachedStore::read_block(const Block& block, int64_t from, std::span<std::byte> into) {
  if (read_kept(block, from, into)) return;
  {
    std::unique_lock lock(mutex_);
    if (!in_flight_.insert(block.name).second) {
      fetched_.wait(lock, [&] { return in_flight_.count(block.name) == 0; });
      lock.unlock();
      return read_block(block, from, into);  // where the other thread failed, or nothing was kept, this one fetches
    }
  }
  struct Landing {
    CachedStore& cache;
    const std::string& name;
    ~Landing() {
      const std::lock_guard lock(cache.mutex_);
      cache.in_flight_.erase(name);
      cache.fetched_.notify_all();
    }
  } const landing{*this, block.name};
  if (read_kept(block, from, into)) return;  // another thread has landed in between
  ++misses_;
  fetch(block, from, into);
}

bool CachedStore::read_kept(const Block& block, int64_t from, std::span<std::byte> into) {
  const FileDescriptor file(open(block.path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
  if (!file && errno == ENOENT) return false;
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0) throw_system_error("cannot read " + block.path.string(), errno);
  const bool right_size =
      S_ISREG(status.st_mode) && status.st_size == block.bytes + static_cast<int64_t>(kTrailerBytes);
  const bool right = right_size && (has_checked(block, status.st_ino) ? read_at(file.get(), from, into, block.path)
                                                                      : check_and_copy(file.get(), block, from, into));
  if (!right) {
    unlink(block.path.c_str());
    return false;
  }
  futimens(file.get(), nullptr);  // used now; where that fails, the block goes earlier
  const std::lock_guard lock(mutex_);
  if (checked_.size() >= kMostChecked) checked_.clear();
  checked_[block.name] = status.st_ino;
  ++hits_;
  kept_bytes_ += std::ssize(into);
  return true;
}

bool CachedStore::has_checked(const Block& block, uint64_t inode) {
  const std::lock_guard lock(mutex_);
  const auto found = checked_.find(block.name);
  return found != checked_.end() && found->second == inode;
}

// Compares all of a block's file, and puts the wanted part into `into`.
bool CachedStore::check_and_copy(int file, const Block& block, int64_t from, std::span<std::byte> into) {
  std::vector<std::byte> all(static_cast<size_t>(block.bytes) + kTrailerBytes);
  if (!read_at(file, 0, all, block.path)) return false;
  const std::span bytes = std::span(all).first(static_cast<size_t>(block.bytes));
  if (text_of(std::span(all).subspan(bytes.size())) != trailer_of(block, bytes)) return false;
  std::memcpy(into.data(), bytes.data() + from, into.size());
  copied_bytes_ += std::ssize(into);
  return true;
}

void CachedStore::fetch(const Block& block, int64_t from, std::span<std::byte> into) {
  if (std::ssize(into) == block.bytes) {
    store_->read(block.object, block.offset, into);
    return keep(block, into);
  }
  std::vector<std::byte> all(static_cast<size_t>(block.bytes));
  store_->read(block.object, block.offset, all);
  std::memcpy(into.data(), all.data() + from, into.size());
  copied_bytes_ += std::ssize(into);
  keep(block, all);
}

// What stands behind the bytes of a block in its file: its name and their checksum.
std::string CachedStore::trailer_of(const Block& block, std::span<const std::byte> bytes) {
  const uint32_t checksum =
      checksums_.measure(std::ssize(bytes), [&] { return tfrecord::masked_checksum(text_of(bytes)); });
  std::string trailer = block.name;
  trailer.append(reinterpret_cast<const char*>(&checksum), sizeof checksum);
  return trailer;
}

void CachedStore::keep(const Block& block, std::span<const std::byte> bytes) {
  const fs::path unfinished = folder_ / (std::string(kUnfinished) + "block");
  try {
    const std::lock_guard one(writing_);
    const auto lock = FileLock::acquire(folder_ / kLockName, kLockTimeout);
    if (!lock) return;  // somebody stopped while writing: this block is not kept
    make_room(lock->fd(), std::ssize(bytes) + static_cast<int64_t>(kTrailerBytes));
    // Not flushed: after a crash the checksum tells what is missing.
    const FileDescriptor file(open(unfinished.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) throw_system_error("cannot write " + unfinished.string(), errno);
    write_all(file.get(), text_of(bytes), unfinished.string());
    write_all(file.get(), trailer_of(block, bytes), unfinished.string());
    if (rename(unfinished.c_str(), block.path.c_str()) != 0) {
      throw_system_error("cannot rename to " + block.path.string(), errno);
    }
  } catch (const DiskFull&) {
    unlink(unfinished.c_str());
  }
}

// Counts `bytes` more, and removes blocks where that would be too many. The caller holds the lock. The count may be too
// high after a crash or a removal by hand, never too low; it is put right whenever blocks have to go.
void CachedStore::make_room(int lock, int64_t bytes) {
  std::string text(20, '\0');
  text.resize(static_cast<size_t>(std::max<ssize_t>(pread(lock, text.data(), text.size(), 0), 0)));
  int64_t total = to_number<int64_t>(text).value_or(most_bytes_);
  if (total < 0 || total > most_bytes_ - bytes) {
    struct Kept {
      fs::path path;
      fs::file_time_type used;
      int64_t bytes;
    };
    std::vector<Kept> blocks;
    total = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_)) {
      if (entry.path().filename().string().size() != kNameBytes || !entry.is_regular_file()) continue;
      blocks.push_back({entry.path(), entry.last_write_time(), static_cast<int64_t>(entry.file_size())});
      total += blocks.back().bytes;
    }
    std::ranges::sort(blocks, {}, &Kept::used);
    for (const Kept& oldest : blocks) {
      if (total <= most_bytes_ - bytes) break;
      unlink(oldest.path.c_str());
      total -= oldest.bytes;
    }
  }
  text = std::to_string(total + bytes);
  if (ftruncate(lock, 0) != 0 || pwrite(lock, text.data(), text.size(), 0) != std::ssize(text)) {
    throw_system_error("cannot write " + (folder_ / kLockName).string(), errno);
  }
}

}  // namespace mlbench::objects
