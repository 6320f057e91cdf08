#include "mlbench/dataset/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>

#include "mlbench/base/files.h"
#include "mlbench/base/system_error.h"

namespace mlbench::dataset {

namespace fs = std::filesystem;

namespace {

using Reader = std::unique_ptr<archive, decltype(&archive_read_free)>;

[[noreturn]] void damaged(const fs::path& path, archive* reader) {
  const char* reason = archive_error_string(reader);
  throw UserError(
      fmt::format("{}: damaged archive ({})", path.string(), reason != nullptr ? reason : "no reason given"));
}

Reader open_archive(const fs::path& path) {
  Reader reader(archive_read_new(), &archive_read_free);
  if (reader == nullptr) throw IoError("cannot read " + path.string() + ": out of memory");
  archive_read_support_filter_gzip(reader.get());
  archive_read_support_filter_xz(reader.get());
  archive_read_support_filter_bzip2(reader.get());
  archive_read_support_format_tar(reader.get());
  const FileDescriptor readable(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!readable) throw_system_error("cannot read " + path.string(), errno);
  if (archive_read_open_filename(reader.get(), path.c_str(), 1 << 20) != ARCHIVE_OK) damaged(path, reader.get());
  return reader;
}

}  // namespace

void unpack_members(const fs::path& path, const std::vector<std::string>& members, int64_t max_member_bytes,
                    const fs::path& folder) {
  std::set<std::string> missing(members.begin(), members.end());
  const Reader reader = open_archive(path);
  std::vector<char> block(1 << 20);
  archive_entry* entry = nullptr;
  while (!missing.empty()) {
    const int code = archive_read_next_header(reader.get(), &entry);
    if (code == ARCHIVE_EOF) break;
    if (code != ARCHIVE_OK) damaged(path, reader.get());
    const char* raw = archive_entry_pathname(entry);
    std::string name = raw != nullptr ? raw : "";
    if (name.starts_with("./")) name.erase(0, 2);
    if (missing.erase(name) == 0) continue;
    if (archive_entry_filetype(entry) != AE_IFREG) {
      throw UserError(fmt::format("{}: {} is no regular file in the archive", path.string(), name));
    }
    const fs::path target = folder / fs::path(name).filename();
    const FileDescriptor out(open(target.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
    if (!out) throw_system_error("cannot write " + target.string(), errno);
    int64_t done = 0;
    while (true) {
      const auto count = archive_read_data(reader.get(), block.data(), block.size());
      if (count < 0) damaged(path, reader.get());
      if (count == 0) break;
      done += count;
      if (done > max_member_bytes) {
        throw UserError(fmt::format("{}: {} is larger than {} bytes", path.string(), name, max_member_bytes));
      }
      write_all(out.get(), {block.data(), static_cast<size_t>(count)}, target.string());
    }
  }
  if (!missing.empty()) throw UserError(fmt::format("{}: holds no {}", path.string(), fmt::join(missing, ", ")));
}

ReadableFiles::ReadableFiles(const DatasetDescription& description, const LocatedDataset& located,
                             const fs::path& folder)
    : files_(located.files) {
  if (located.archive.empty()) return;
  fs::remove_all(folder);
  make_folder(folder);
  std::vector<std::string> members;
  int64_t most_samples = 0;
  for (const SplitSpec& split : description.splits) most_samples = std::max(most_samples, split.samples);
  for (auto& split : files_) {
    for (fs::path& file : split) {
      members.push_back(file.generic_string());
      file = folder / file.filename();
    }
  }
  // Room for any text or binary form of the records, but not for a bomb.
  const int64_t limit = 1000 + most_samples * (description.sample_volume() + 1) * 32;
  try {
    unpack_members(located.archive, members, limit, folder);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    throw;
  }
  folder_ = folder;
}

ReadableFiles::~ReadableFiles() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

}  // namespace mlbench::dataset
