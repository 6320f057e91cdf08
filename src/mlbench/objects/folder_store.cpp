#include "mlbench/objects/folder_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/storage.h"
#include "mlbench/base/system_error.h"

namespace mlbench::objects {

namespace fs = std::filesystem;

namespace {

class FolderStore final : public ObjectStore {
 public:
  explicit FolderStore(fs::path folder) : folder_(std::move(folder)) {}

  std::vector<Object> list() override {
    std::vector<Object> objects;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_)) {
      const std::string key = entry.path().lexically_relative(folder_).string();
      check_key(folder_.string(), key);
      if (entry.is_symlink()) throw UserError(fmt::format("{}: a link; expected plain files", entry.path().string()));
      if (entry.is_directory()) continue;
      if (!entry.is_regular_file()) throw UserError(fmt::format("{}: no plain file", entry.path().string()));
      objects.push_back({key, static_cast<int64_t>(entry.file_size())});
    }
    std::ranges::sort(objects, {}, &Object::key);
    objects_ = std::ssize(objects);
    return objects;
  }

  void read(const Object& object, int64_t offset, std::span<std::byte> into) override {
    check_key(folder_.string(), object.key);
    const fs::path path = folder_ / object.key;
    const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW));
    if (!file) throw_system_error("cannot read " + path.string(), errno);
    for (size_t done = 0; done < into.size();) {
      const ssize_t got =
          pread(file.get(), into.data() + done, into.size() - done, offset + static_cast<int64_t>(done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_system_error("cannot read " + path.string(), errno);
      if (got == 0) {
        throw UserError(fmt::format("{}: ends at byte {}, expected {} bytes from {} on: list the objects again",
                                    path.string(), offset + static_cast<int64_t>(done), into.size(), offset));
      }
      done += static_cast<size_t>(got);
    }
    ++reads_;
    bytes_ += std::ssize(into);
  }

  Counters counters() const override { return {.objects = objects_, .reads = reads_, .bytes = bytes_}; }
  std::string kind() const override { return storage_kind(folder_); }
  std::string endpoint() const override { return ""; }
  std::string place() const override { return folder_.string(); }

 private:
  fs::path folder_;
  std::atomic<int64_t> objects_{0}, reads_{0}, bytes_{0};
};

}  // namespace

std::unique_ptr<ObjectStore> make_folder_store(const fs::path& folder) {
  if (!fs::is_directory(folder)) {
    throw UserError(
        fmt::format("'{}' is no folder: expected a folder with objects, or s3://BUCKET/PREFIX", folder.string()));
  }
  return std::make_unique<FolderStore>(folder);
}

}  // namespace mlbench::objects
