#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/printable.h"
#include "mlbench/base/relative_key.h"
#include "mlbench/base/text.h"
#include "mlbench/image/index/labels.h"
#include "mlbench/image/index/sample_index.h"

namespace mlbench::image {

namespace fs = std::filesystem;

namespace {

using TarReader = std::unique_ptr<archive, decltype(&archive_read_free)>;

constexpr int64_t kMostContentBytes = 64;

[[noreturn]] void refuse_tar(const fs::path& path, archive* reader) {
  const char* reason = archive_error_string(reader);
  throw UserError(
      fmt::format("{}: no tar file, or a damaged one ({}); samples are read at their places, so a packed file "
                  "has to be unpacked first",
                  path.string(), reason != nullptr ? printable(reason) : "no reason given"));
}

TarReader open_tar(const fs::path& path) {
  TarReader reader(archive_read_new(), &archive_read_free);
  if (reader == nullptr) throw IoError("cannot read " + path.string() + ": out of memory");
  archive_read_support_format_tar(reader.get());
  if (archive_read_open_filename(reader.get(), path.c_str(), 1 << 16) != ARCHIVE_OK) refuse_tar(path, reader.get());
  return reader;
}

// A name that the locale of this process cannot hold is there as UTF-8.
std::string name_of(archive_entry* entry) {
  const char* name = archive_entry_pathname(entry);
  if (name == nullptr) name = archive_entry_pathname_utf8(entry);
  std::string text = name != nullptr ? name : "";
  return text.starts_with("./") ? text.substr(2) : text;
}

std::string content_of(archive* reader, int64_t length, const fs::path& path) {
  std::string content(static_cast<size_t>(length), '\0');
  const auto count = archive_read_data(reader, content.data(), content.size());
  if (count != length) refuse_tar(path, reader);
  return content;
}

// WebDataset's parts of a name: the folder and the name up to its first dot, and what follows. Empty for a name that it
// skips: without a dot, or of the form __NAME__.
std::optional<std::pair<std::string_view, std::string_view>> key_and_kind(std::string_view name) {
  const size_t begin = name.rfind('/') == std::string_view::npos ? 0 : name.rfind('/') + 1;
  const size_t dot = name.find('.', begin);
  if (dot == std::string_view::npos || dot == begin) return std::nullopt;
  if (name.starts_with("__") && name.ends_with("__")) return std::nullopt;
  return std::pair{name.substr(0, dot), name.substr(dot + 1)};
}

// The members of one key.
struct Group {
  std::string key;
  const TarMember* image = nullptr;
  const TarMember* label = nullptr;
};

void add_group(const Group& group, int32_t shard, int64_t labels, SampleIndex& index) {
  if (group.key.empty()) return;
  const std::string where = fmt::format("{}: {}", index.shards[static_cast<size_t>(shard)].string(), group.key);
  if (group.image == nullptr && group.label == nullptr) return;
  if (group.image == nullptr) throw UserError(where + ": has a label (.cls), but no image (.jpg, .jpeg, .png)");
  if (group.label == nullptr) throw UserError(where + ": has an image, but no label behind or before it (.cls)");
  if (group.image->length == 0 || group.image->length > kMostImageBytes) {
    throw UserError(
        fmt::format("{}: image of {} bytes, expected 1 to {}", where, group.image->length, kMostImageBytes));
  }
  const int64_t label = label_in(trimmed(group.label->content), labels, where);
  index.samples.push_back({shard, group.image->offset, group.image->length, label, group.key});
}

void add_shard(int32_t shard, int64_t labels, SampleIndex& index) {
  const fs::path& path = index.shards[static_cast<size_t>(shard)];
  const std::vector<TarMember> members = read_tar_members(path);
  Group group;
  for (const TarMember& member : members) {
    const auto parts = key_and_kind(member.name);
    if (!parts) continue;
    if (parts->first != group.key) {
      add_group(group, shard, labels, index);
      group = {std::string(parts->first)};
    }
    const std::string kind = lower_extension(parts->second);
    const bool image = kind == "jpg" || kind == "jpeg" || kind == "png";
    if (!image && kind != "cls") continue;
    const TarMember*& place = image ? group.image : group.label;
    if (place != nullptr) {
      throw UserError(fmt::format("{}: {}: has two {}", path.string(), group.key, image ? "images" : "labels"));
    }
    place = &member;
  }
  add_group(group, shard, labels, index);
}

}  // namespace

std::vector<TarMember> read_tar_members(const fs::path& path, std::string_view read) {
  if (!fs::is_regular_file(path)) throw UserError(path.string() + ": no such file, expected a tar file");
  const auto file_bytes = static_cast<int64_t>(fs::file_size(path));
  const TarReader reader = open_tar(path);
  std::vector<TarMember> members;
  archive_entry* entry = nullptr;
  while (true) {
    const int code = archive_read_next_header(reader.get(), &entry);
    if (code == ARCHIVE_EOF) break;
    // A warning says that the locale cannot hold a name.
    if (code != ARCHIVE_OK && code != ARCHIVE_WARN) refuse_tar(path, reader.get());
    if (archive_entry_filetype(entry) == AE_IFDIR) continue;
    TarMember member;
    member.name = name_of(entry);
    check_key(path.string(), member.name);
    if (archive_entry_hardlink(entry) != nullptr || archive_entry_filetype(entry) != AE_IFREG ||
        archive_entry_sparse_count(entry) > 0) {
      throw UserError(fmt::format("{}: {}: a link, a device or a file with holes, expected plain files", path.string(),
                                  member.name));
    }
    // What was read so far of a file that is not packed: all up to the content.
    member.offset = archive_filter_bytes(reader.get(), 0);
    member.length = archive_entry_size(entry);
    MLBENCH_CHECK(member.offset > archive_read_header_position(reader.get()) && member.offset % 512 == 0,
                  "content lies in a block behind its header");
    if (member.length < 0 || member.length > file_bytes - member.offset) {
      throw UserError(fmt::format("{}: {}: {} bytes at byte {}, but the file has {}", path.string(), member.name,
                                  member.length, member.offset, file_bytes));
    }
    if (member.name.ends_with(read) && member.length <= kMostContentBytes) {
      member.content = content_of(reader.get(), member.length, path);
    }
    members.push_back(std::move(member));
  }
  return members;
}

SampleIndex index_web_dataset(const std::vector<fs::path>& shards, int64_t labels) {
  SampleIndex index;
  index.shards = shards;
  index.labels = labels;
  for (size_t shard = 0; shard < shards.size(); ++shard) add_shard(static_cast<int32_t>(shard), labels, index);
  if (index.samples.empty()) throw UserError("the tar files hold no images (KEY.jpg beside KEY.cls)");
  return index;
}

}  // namespace mlbench::image
