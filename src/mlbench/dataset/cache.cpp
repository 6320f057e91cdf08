#include "mlbench/dataset/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>
#include <utility>

#include "mlbench/base/files.h"
#include "mlbench/base/sha256.h"
#include "mlbench/base/shape.h"
#include "mlbench/base/system_error.h"
#include "mlbench/dataset/verified_mark.h"

namespace mlbench::dataset {

namespace fs = std::filesystem;

namespace {

constexpr size_t kPage = 4096;
constexpr std::chrono::hours kLockTimeout{1};

size_t next_page(size_t offset) { return (offset + kPage - 1) / kPage * kPage; }

using ColumnType = ColumnSpec::Type;

struct Section {
  size_t offset = 0, bytes = 0;
};
// Where a column lies in the file.
struct ColumnPlace {
  Section known;         // its values or offsets
  Section payload = {};  // the bytes to which the offsets refer; add_payloads() knows where
};
struct Layout {
  std::vector<std::vector<ColumnPlace>> splits;  // [split][column]
  size_t bytes = kPage;                          // of the header, all known sections, and the payloads that were added
};

// The size of what the offsets of a column count.
size_t element_bytes(const ColumnSpec& column) { return column.type == ColumnType::kSparse ? sizeof(SparseEntry) : 1; }

size_t known_bytes(const ColumnSpec& column, size_t samples) {
  if (column.type != ColumnType::kValues) return (samples + 1) * sizeof(int64_t);
  return samples * static_cast<size_t>(volume_of(column.shape)) * size_of(column.dtype);
}

// The layout up to where payloads begin.
Layout layout_of(const CacheId& id) {
  Layout layout;
  for (const SplitSpec& split : id.description.splits) {
    std::vector<ColumnPlace>& places = layout.splits.emplace_back();
    for (const ColumnSpec& column : id.columns) {
      places.push_back({{layout.bytes, known_bytes(column, static_cast<size_t>(split.samples))}});
      layout.bytes = next_page(layout.bytes + places.back().known.bytes);
    }
  }
  return layout;
}

std::span<const int64_t> offsets_at(const Section& section, const std::byte* base) {
  return {reinterpret_cast<const int64_t*>(base + section.offset), section.bytes / sizeof(int64_t)};
}

// Adds the places of payloads, as the offsets in `file` say. Returns why the file cannot have this layout, or "".
std::string add_payloads(const CacheId& id, std::span<const std::byte> file, Layout& layout) {
  for (size_t split = 0; split < layout.splits.size() && file.size() >= layout.bytes; ++split) {
    for (size_t i = 0; i < id.columns.size(); ++i) {
      if (id.columns[i].type == ColumnType::kValues) continue;
      ColumnPlace& place = layout.splits[split][i];
      const std::span<const int64_t> offsets = offsets_at(place.known, file.data());
      const size_t element = element_bytes(id.columns[i]);
      if (offsets.front() != 0 || !std::ranges::is_sorted(offsets) ||
          static_cast<size_t>(offsets.back()) > (file.size() - layout.bytes) / element) {
        return fmt::format("the offsets of column '{}' do not fit the file", id.columns[i].name);
      }
      place.payload = {layout.bytes, static_cast<size_t>(offsets.back()) * element};
      layout.bytes += place.payload.bytes;
    }
  }
  return file.size() == layout.bytes ? "" : fmt::format("{} bytes instead of {}", file.size(), layout.bytes);
}

Column column_view(const ColumnSpec& column, const ColumnPlace& place, const std::byte* base) {
  if (column.type == ColumnType::kBytes) {
    return BytesColumn{column.name, {base + place.payload.offset, place.payload.bytes}, offsets_at(place.known, base)};
  }
  if (column.type == ColumnType::kSparse) {
    MLBENCH_CHECK(place.payload.offset % alignof(SparseEntry) == 0, "a set has sparse rows or bytes, not both");
    const std::span entries(reinterpret_cast<const SparseEntry*>(base + place.payload.offset),
                            place.payload.bytes / sizeof(SparseEntry));
    return SparseColumn{{column.name, entries, offsets_at(place.known, base)}, volume_of(column.shape)};
  }
  const auto elements = static_cast<int64_t>(place.known.bytes / size_of(column.dtype));
  return FixedColumn{column.name, column.shape, ConstBufferView(base + place.known.offset, elements, column.dtype)};
}

std::vector<CachedSplit> split_views(const CacheId& id, const Layout& layout, const std::byte* base) {
  std::vector<CachedSplit> views;
  for (size_t i = 0; i < layout.splits.size(); ++i) {
    CachedSplit& view = views.emplace_back();
    view.name = id.description.splits[i].name;
    view.samples = id.description.splits[i].samples;
    if (!id.shards.empty()) view.shards = id.shards[i];
    if (!id.stored.empty()) view.stored = id.stored[i];
    for (size_t j = 0; j < id.columns.size(); ++j) {
      view.columns.push_back(column_view(id.columns[j], layout.splits[i][j], base));
    }
  }
  return views;
}

void hash_record(const FixedColumn& column, int64_t number, Sha256& hash) {
  const ConstBufferView record = column.record(number);
  hash.update(std::span(static_cast<const std::byte*>(record.data), record.size_bytes()));
}

template <typename Element>
void hash_record(const VariableColumn<Element>& column, int64_t number, Sha256& hash) {
  const int64_t length = column.length(number);
  hash.update(std::as_bytes(std::span(&length, 1)));
  hash.update(std::as_bytes(column.record(number)));
}

std::string fingerprint_of(const std::string& generator, const std::vector<CachedSplit>& splits) {
  Sha256 hash;
  hash.update(generator);
  for (const CachedSplit& split : splits) {
    for (int64_t i = 0; i < split.samples; ++i) {
      for (const Column& column : split.columns) {
        std::visit([&](const auto& one) { hash_record(one, i, hash); }, column);
      }
    }
  }
  return hash.hex();
}

Json column_json(const ColumnSpec& column, const ColumnPlace& place) {
  Json json = {{"name", column.name}, {"offset", place.known.offset}};
  if (column.type == ColumnType::kBytes) {
    json.update({{"type", "bytes"}, {"bytes_offset", place.payload.offset}});
  } else if (column.type == ColumnType::kSparse) {
    json.update({{"type", "sparse"}, {"shape", column.shape}, {"entries_offset", place.payload.offset}});
  } else {
    json.update({{"type", name_of(column.dtype)}, {"shape", column.shape}});
  }
  return json;
}

std::string header_of(const CacheId& id, const Layout& layout, const std::string& fingerprint) {
  Json splits = Json::array();
  for (size_t i = 0; i < layout.splits.size(); ++i) {
    Json columns = Json::array();
    for (size_t j = 0; j < id.columns.size(); ++j) {
      columns.push_back(column_json(id.columns[j], layout.splits[i][j]));
    }
    const SplitSpec& split = id.description.splits[i];
    splits.push_back({{"name", split.name}, {"samples", split.samples}, {"columns", std::move(columns)}});
  }
  const Json json = {{"name", id.description.name},
                     {"synthetic", !id.generator.empty()},
                     {"key", id.key},
                     {"fingerprint", fingerprint},
                     {"bytes", layout.bytes},
                     {"splits", std::move(splits)}};
  std::string header = fmt::format("mlbench data cache, version {}\n{}\n", kCacheVersion, json.dump());
  MLBENCH_CHECK(header.size() <= kPage, "the header is one page");
  header.resize(kPage, '\0');
  return header;
}

bool has_header(std::span<const std::byte> file, const std::string& header) {
  return std::memcmp(file.data(), header.data(), header.size()) == 0;
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
  Layout layout = layout_of(id);
  const auto file = std::make_shared<const MappedFile>(path);
  const auto fingerprint = fingerprint_fact.get<std::string>();
  if (!add_payloads(id, file->bytes(), layout).empty() ||
      !has_header(file->bytes(), header_of(id, layout, fingerprint))) {
    return {};
  }
  return PreparedDataset(id.description, file, split_views(id, layout, file->bytes().data()), fingerprint, id.generator,
                         official.get<bool>());
}

OpenedCache open_cache(const CacheId& id, const fs::path& path) {
  if (auto data = open_checked_cache(id, path)) return {std::move(data), ""};
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  const VerifiedMark mark(path);
  const auto file = std::make_shared<const MappedFile>(path);
  Layout layout = layout_of(id);
  if (std::string problem = add_payloads(id, file->bytes(), layout); !problem.empty()) return {{}, std::move(problem)};
  auto splits = split_views(id, layout, file->bytes().data());
  const std::string fingerprint = fingerprint_of(id.generator, splits);
  if (!has_header(file->bytes(), header_of(id, layout, fingerprint))) {
    return {{}, "records and header do not agree"};
  }
  PreparedDataset data(id.description, file, std::move(splits), fingerprint, id.generator);
  mark.write(
      {{"fingerprint", fingerprint}, {"official", data.official()}, {"checksums", checksums_of(id.description)}});
  return {std::move(data), ""};
}

// A new file under a temporary name, with the space of its known sections reserved and mapped for writing; removed
// unless committed. Reserving first turns a full disk into an error here, where a write into the mapping would be
// killed by SIGBUS.
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
    if (lseek(fd_.get(), static_cast<off_t>(bytes), SEEK_SET) < 0) fail("write", errno);
  }
  NewCache(const NewCache&) = delete;
  NewCache& operator=(const NewCache&) = delete;
  ~NewCache() {
    unmap();
    if (!committed_) unlink(temporary_.c_str());
  }

  std::byte* base() { return base_; }
  const std::string& temporary() const { return temporary_; }

  // Writes behind the known sections and what was appended before.
  void append(std::span<const std::byte> bytes) {
    write_all(fd_.get(), {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, temporary_);
  }

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

class NewSplit final : public SplitWriter {
 public:
  NewSplit(const CacheId& id, const std::vector<ColumnPlace>& places, NewCache& file)
      : columns_(id.columns), places_(places), file_(file), records_(places.size()) {}

  std::span<std::byte> values(std::string_view column) override {
    const size_t index = index_of(column);
    MLBENCH_CHECK(columns_[index].type == ColumnType::kValues, std::string(column));
    const Section& known = places_[index].known;
    return {file_.base() + known.offset, known.bytes};
  }

  void append(std::string_view column, std::span<const std::byte> record) override {
    const size_t index = index_of(column);
    MLBENCH_CHECK(columns_[index].type != ColumnType::kValues, std::string(column));
    const auto begun_later = std::span(records_).subspan(index + 1);
    MLBENCH_CHECK(std::ranges::all_of(begun_later, [](size_t count) { return count == 0; }), "columns in their order");
    const std::span<int64_t> offsets = offsets_of(index);
    size_t& written = records_[index];
    MLBENCH_CHECK(written + 1 < offsets.size(), "more records than samples");
    file_.append(record);
    const size_t element = element_bytes(columns_[index]);
    MLBENCH_CHECK(record.size() % element == 0, "whole entries");
    offsets[written + 1] = offsets[written] + static_cast<int64_t>(record.size() / element);
    ++written;
  }

  void check_whole() {
    for (size_t i = 0; i < columns_.size(); ++i) {
      MLBENCH_CHECK(columns_[i].type == ColumnType::kValues || records_[i] + 1 == offsets_of(i).size(),
                    "fewer records than samples in column " + columns_[i].name);
    }
  }

 private:
  size_t index_of(std::string_view name) const {
    const auto found = std::ranges::find(columns_, name, &ColumnSpec::name);
    MLBENCH_CHECK(found != columns_.end(), std::string(name));
    return static_cast<size_t>(found - columns_.begin());
  }
  std::span<int64_t> offsets_of(size_t column) {
    const Section& known = places_[column].known;
    return {reinterpret_cast<int64_t*>(file_.base() + known.offset), known.bytes / sizeof(int64_t)};
  }

  const std::vector<ColumnSpec>& columns_;
  const std::vector<ColumnPlace>& places_;
  NewCache& file_;
  std::vector<size_t> records_;  // [column] that were appended
};

void make_cache(const CacheId& id, const fs::path& path, const FillSplit& fill) {
  Layout layout = layout_of(id);
  NewCache file(path, layout.bytes);
  for (size_t i = 0; i < layout.splits.size(); ++i) {
    NewSplit split(id, layout.splits[i], file);
    fill(i, split);
    split.check_whole();
  }
  const MappedFile written(file.temporary());
  const std::string problem = add_payloads(id, written.bytes(), layout);
  MLBENCH_CHECK(problem.empty(), problem);
  const std::string fingerprint = fingerprint_of(id.generator, split_views(id, layout, written.bytes().data()));
  std::memcpy(file.base(), header_of(id, layout, fingerprint).data(), kPage);
  file.commit();
}

}  // namespace

std::vector<ColumnSpec> sample_columns(const DatasetDescription& description) {
  const Format* format = find_format(description.format);
  MLBENCH_CHECK(format != nullptr, "parse_description() checks the format");
  const ColumnType type = format->read_sparse != nullptr ? ColumnType::kSparse : ColumnType::kValues;
  return {{.name = "features", .type = type, .shape = description.sample_shape, .dtype = format->dtype},
          {.name = "labels", .dtype = DType::kInt64}};
}

SplitBuffers sample_buffers(SplitWriter& split) {
  const std::span<std::byte> labels = split.values("labels");
  return {split.values("features"), {reinterpret_cast<int64_t*>(labels.data()), labels.size() / sizeof(int64_t)}};
}

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

Json state_of_file(const fs::path& file) {
  return {fs::absolute(file).lexically_normal().string(), fs::file_size(file),
          fs::last_write_time(file).time_since_epoch().count()};
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
