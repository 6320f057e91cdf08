#include "mlbench/dataset/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include "mlbench/base/files.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/system_error.h"
#include "mlbench/dataset/verified_mark.h"

namespace mlbench::dataset {

namespace fs = std::filesystem;

namespace {

constexpr size_t kPage = 4096;
constexpr std::chrono::hours kLockTimeout{1};

size_t next_page(size_t offset) { return (offset + kPage - 1) / kPage * kPage; }

struct SplitLayout {
  size_t features = 0, features_bytes = 0;
  size_t labels = 0, labels_bytes = 0;
};
struct Layout {
  std::vector<SplitLayout> splits;
  size_t bytes = kPage;
};

DType dtype_of_format(const DatasetDescription& description) {
  const Format* format = find_format(description.format);
  MLBENCH_CHECK(format != nullptr, "parse_description() checks the format");
  return format->dtype;
}

Layout layout_of(const DatasetDescription& description) {
  const size_t record = static_cast<size_t>(description.sample_volume()) * size_of(dtype_of_format(description));
  Layout layout;
  for (const SplitSpec& split : description.splits) {
    const auto samples = static_cast<size_t>(split.samples);
    SplitLayout section;
    section.features = layout.bytes;
    section.features_bytes = samples * record;
    section.labels = next_page(section.features + section.features_bytes);
    section.labels_bytes = samples * sizeof(int64_t);
    layout.bytes = next_page(section.labels + section.labels_bytes);
    layout.splits.push_back(section);
  }
  return layout;
}

std::vector<CachedSplit> split_views(const DatasetDescription& description, const Layout& layout,
                                     const std::byte* base) {
  const DType dtype = dtype_of_format(description);
  std::vector<CachedSplit> views;
  for (size_t i = 0; i < layout.splits.size(); ++i) {
    const SplitSpec& split = description.splits[i];
    const SplitLayout& section = layout.splits[i];
    CachedSplit view;
    view.name = split.name;
    view.samples = split.samples;
    view.sample_shape = description.sample_shape;
    view.dtype = dtype;
    view.features = ConstBufferView(base + section.features, split.samples * description.sample_volume(), dtype);
    view.labels = {reinterpret_cast<const int64_t*>(base + section.labels), static_cast<size_t>(split.samples)};
    views.push_back(std::move(view));
  }
  return views;
}

std::string fingerprint_of(const std::string& generator, const std::vector<CachedSplit>& splits) {
  Sha256 hash;
  hash.update(generator);
  for (const CachedSplit& split : splits) {
    const auto record = static_cast<size_t>(split.sample_volume()) * size_of(split.dtype);
    const auto* features = static_cast<const std::byte*>(split.features.data);
    for (size_t i = 0; i < split.labels.size(); ++i) {
      hash.update(std::span(features + i * record, record));
      hash.update(std::as_bytes(split.labels.subspan(i, 1)));
    }
  }
  return hash.hex();
}

std::string header_of(const CacheId& id, const Layout& layout, const std::string& fingerprint) {
  Json splits = Json::array();
  for (size_t i = 0; i < layout.splits.size(); ++i) {
    const SplitSpec& split = id.description.splits[i];
    splits.push_back({{"name", split.name},
                      {"samples", split.samples},
                      {"features_offset", layout.splits[i].features},
                      {"labels_offset", layout.splits[i].labels}});
  }
  const Json json = {{"name", id.description.name},
                     {"synthetic", !id.generator.empty()},
                     {"key", id.key},
                     {"fingerprint", fingerprint},
                     {"dtype", name_of(dtype_of_format(id.description))},
                     {"sample_shape", id.description.sample_shape},
                     {"bytes", layout.bytes},
                     {"splits", std::move(splits)}};
  std::string header = fmt::format("mlbench data cache, version {}\n{}\n", kCacheVersion, json.dump());
  MLBENCH_CHECK(header.size() <= kPage, "the header is one page");
  header.resize(kPage, '\0');
  return header;
}

struct OpenedCache {
  std::optional<PreparedDataset> data;
  std::string problem;  // why there is none; "" when there is no file
};

// A hash of all published checksums, on which it depends whether records are official.
std::string checksums_of(const DatasetDescription& description) {
  std::string all = description.fingerprint;
  for (const SplitSpec& split : description.splits) {
    for (const FileSource& file : split.files) all += "\n" + file.content_sha256;
  }
  return sha256_hex(all);
}

// The data of a whole cache that this build checked before on this host. Empty: the cache is to be checked.
std::optional<PreparedDataset> open_checked_cache(const CacheId& id, const fs::path& path) {
  const VerifiedMark mark(path);
  const Json facts = mark.facts().value_or(Json());
  if (!facts.is_object()) return {};
  const Json fingerprint_fact = facts.value("fingerprint", Json()), official = facts.value("official", Json());
  if (!fingerprint_fact.is_string() || !official.is_boolean() ||
      facts.value("checksums", Json()) != checksums_of(id.description)) {
    return {};
  }
  const Layout layout = layout_of(id.description);
  const auto file = std::make_shared<const MappedFile>(path);
  const auto fingerprint = fingerprint_fact.get<std::string>();
  if (file->bytes().size() != layout.bytes ||
      std::memcmp(file->bytes().data(), header_of(id, layout, fingerprint).data(), kPage) != 0) {
    return {};
  }
  return PreparedDataset(id.description, file, split_views(id.description, layout, file->bytes().data()), fingerprint,
                         id.generator, official.get<bool>());
}

OpenedCache open_cache(const CacheId& id, const fs::path& path) {
  if (auto data = open_checked_cache(id, path)) return {std::move(data), ""};
  const Layout layout = layout_of(id.description);
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  const VerifiedMark mark(path);
  const auto file = std::make_shared<const MappedFile>(path);
  if (file->bytes().size() != layout.bytes) {
    return {{}, fmt::format("{} bytes instead of {}", file->bytes().size(), layout.bytes)};
  }
  auto splits = split_views(id.description, layout, file->bytes().data());
  const std::string fingerprint = fingerprint_of(id.generator, splits);
  if (std::memcmp(file->bytes().data(), header_of(id, layout, fingerprint).data(), kPage) != 0) {
    return {{}, "records and header do not agree"};
  }
  PreparedDataset data(id.description, file, std::move(splits), fingerprint, id.generator);
  mark.write(
      {{"fingerprint", fingerprint}, {"official", data.official()}, {"checksums", checksums_of(id.description)}});
  return {std::move(data), ""};
}

// A new file under a temporary name, with its space reserved, mapped for writing; removed unless committed. Reserving
// first turns a full disk into an error here, where a write into the mapping would be killed by SIGBUS.
class NewCache {
 public:
  // Precondition: the lock of the cache is held. So one name is enough, and what an earlier, killed process left is
  // overwritten.
  NewCache(const fs::path& path, size_t bytes) : path_(path), temporary_(path.string() + ".tmp"), bytes_(bytes) {
    fd_ = FileDescriptor(open(temporary_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    if (!fd_) fail("write", errno);
    if (const int error = posix_fallocate(fd_.get(), 0, static_cast<off_t>(bytes)); error != 0) {
      const std::string space = free_space();
      unlink(temporary_.c_str());
      throw_system_error(
          fmt::format("cannot write {} ({:.1f} MB are needed{})", temporary_, static_cast<double>(bytes) / 1e6, space),
          error);
    }
    void* base = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    if (base == MAP_FAILED) {
      const int error = errno;
      unlink(temporary_.c_str());
      fail("map", error);
    }
    base_ = static_cast<std::byte*>(base);
  }
  NewCache(const NewCache&) = delete;
  NewCache& operator=(const NewCache&) = delete;
  ~NewCache() {
    unmap();
    if (!committed_) unlink(temporary_.c_str());
  }

  std::byte* base() { return base_; }

  void commit() {
    if (msync(base_, bytes_, MS_SYNC) != 0) fail("write", errno);
    unmap();
    if (fsync(fd_.get()) != 0) fail("write", errno);
    if (rename(temporary_.c_str(), path_.c_str()) != 0) fail("rename", errno);
    committed_ = true;
    sync_directory(path_.parent_path());
  }

 private:
  [[noreturn]] void fail(const char* action, int error) const {
    throw_system_error(fmt::format("cannot {} {}", action, temporary_), error);
  }
  std::string free_space() const {
    struct statvfs info {};
    if (fstatvfs(fd_.get(), &info) != 0) return "";
    return fmt::format(", {:.1f} MB are free in {}",
                       static_cast<double>(info.f_bavail) * static_cast<double>(info.f_frsize) / 1e6,
                       path_.parent_path().string());
  }
  void unmap() {
    if (base_ != nullptr) munmap(base_, bytes_);
    base_ = nullptr;
  }

  fs::path path_;
  std::string temporary_;
  size_t bytes_;
  FileDescriptor fd_;
  std::byte* base_ = nullptr;
  bool committed_ = false;
};

void make_cache(const CacheId& id, const fs::path& path, const FillSplit& fill) {
  const Layout layout = layout_of(id.description);
  NewCache file(path, layout.bytes);
  for (size_t i = 0; i < layout.splits.size(); ++i) {
    const SplitLayout& section = layout.splits[i];
    fill(i, {{file.base() + section.features, section.features_bytes},
             {reinterpret_cast<int64_t*>(file.base() + section.labels), section.labels_bytes / sizeof(int64_t)}});
  }
  const std::string fingerprint = fingerprint_of(id.generator, split_views(id.description, layout, file.base()));
  std::memcpy(file.base(), header_of(id, layout, fingerprint).data(), kPage);
  file.commit();
}

}  // namespace

fs::path CacheId::path_in(const fs::path& cache_dir) const {
  return cache_dir / fmt::format("{}{}-v{}-{}.cache", description.name, generator.empty() ? "" : "-synthetic",
                                 kCacheVersion, key.substr(0, 16));
}

std::string cache_key(const DatasetDescription& description, const Json& origin) {
  Json splits = Json::array();
  for (const SplitSpec& split : description.splits)
    splits.push_back({{"name", split.name}, {"samples", split.samples}});
  return sha256_hex(canonical_json({{"name", description.name},
                                    {"format", description.format},
                                    {"sample_shape", description.sample_shape},
                                    {"classes", description.classes},
                                    {"splits", std::move(splits)},
                                    {"origin", origin}}));
}

PreparedDataset open_or_make_cache(const CacheId& id, const fs::path& cache_dir, const FillSplit& fill,
                                   const std::string& making, const Progress& progress) {
  const auto say = [&](const std::string& line) {
    if (progress) progress(line);
  };
  make_folder(cache_dir);

  const fs::path path = fs::absolute(id.path_in(cache_dir));
  if (auto checked = open_checked_cache(id, path)) return *std::move(checked);

  // One process checks or decodes under the lock, and the others find its mark.
  const fs::path lock_path = path.string() + ".lock";
  std::optional<FileLock> lock;
  try {
    lock = FileLock::acquire(lock_path, std::chrono::milliseconds(0));
  } catch (const SystemError&) {  // a whole cache in a read-only folder will do
    if (OpenedCache opened = open_cache(id, path); opened.data) return *std::move(opened.data);
    throw;
  }
  if (!lock) {
    say("waiting for another process that prepares " + path.string());
    lock = FileLock::acquire(lock_path, kLockTimeout);
    if (!lock) {
      throw IoError(
          fmt::format("another process has held {} for {} h: is it stuck?", lock_path.string(), kLockTimeout.count()));
    }
  }
  OpenedCache opened = open_cache(id, path);  // there before, or made while we waited
  if (opened.data) return *std::move(opened.data);
  if (!opened.problem.empty()) say(fmt::format("{} is damaged ({}): made anew", path.string(), opened.problem));
  say(making);
  make_cache(id, path, fill);
  opened = open_cache(id, path);
  if (!opened.data) {
    throw IoError(fmt::format("{} reads otherwise than it was written ({}): is the disk failing?", path.string(),
                              opened.problem.empty() ? "no such file" : opened.problem));
  }
  return *std::move(opened.data);
}

}  // namespace mlbench::dataset
