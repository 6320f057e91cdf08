#include "mlbench/net/link/folder_sender.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

#include "mlbench/base/errors.h"
#include "mlbench/base/system_error.h"
#include "mlbench/net/kv/wire.h"

namespace mlbench::net::link {

namespace fs = std::filesystem;

std::optional<std::string> SeenFolders::next(const fs::path& root, const std::vector<std::string>& parents) {
  std::set<std::string> fresh;
  for (const std::string& parent : parents) {
    std::error_code error;
    for (fs::directory_iterator entry(root / parent, error), end; !error && entry != end; entry.increment(error)) {
      const std::string name = entry->path().filename();
      struct stat info {};
      if (name.starts_with('.') || lstat(entry->path().c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) continue;
      const std::string path = parent + "/" + name;
      const auto known = seen_.find(path);
      if (known == seen_.end() || known->second != info.st_ino) fresh.insert(path);
    }
  }
  if (fresh.empty()) return std::nullopt;
  struct stat info {};
  // Where the folder is gone again, the next look tells.
  seen_[*fresh.begin()] = lstat((root / *fresh.begin()).c_str(), &info) == 0 ? info.st_ino : 0;
  return *fresh.begin();
}

FolderSender::FolderSender(const fs::path& root, std::string name, int64_t number)
    : name_(std::move(name)), number_(number) {
  std::vector<fs::path> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(root / name_, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_regular_file(error)) paths.push_back(entry->path());
  }
  if (error) throw_system_error("cannot read " + (root / name_).string(), error.value());
  std::ranges::sort(paths);
  for (const fs::path& path : paths) {
    File file{path.lexically_relative(root / name_).string(),
              FileDescriptor(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC)), bytes_, 0};
    struct stat info {};
    if (!file.file || fstat(file.file.get(), &info) != 0) throw_system_error("cannot read " + path.string(), errno);
    file.bytes = info.st_size;
    bytes_ += file.bytes;
    files_.push_back(std::move(file));
  }
}

std::string FolderSender::take_frame(size_t most) {
  if (!std::exchange(announced_, true)) {
    Json files = Json::array();
    for (const File& file : files_) files.push_back({{"name", file.name}, {"bytes", file.bytes}});
    return wire::encode({{"op", "folder"}, {"name", name_}, {"number", number_}, {"files", files}});
  }
  if (sent_ == bytes_) {
    return std::exchange(ended_, true) ? "" : wire::encode({{"op", "whole"}, {"name", name_}});
  }
  const auto file = std::ranges::find_if(files_, [&](const File& one) { return sent_ < one.begin + one.bytes; });
  std::string bytes(std::min(most, static_cast<size_t>(file->begin + file->bytes - sent_)), '\0');
  const ssize_t count = pread(file->file.get(), bytes.data(), bytes.size(), sent_ - file->begin);
  if (count < 0) throw_system_error("cannot read " + file->name + " of " + name_, errno);
  if (count == 0) throw IoError(file->name + " of " + name_ + " is shorter than it was");
  bytes.resize(static_cast<size_t>(count));
  std::string frame =
      wire::encode({{"op", "file"}, {"name", name_}, {"offset", sent_}, {"bytes", wire::to_bytes(bytes)}});
  sent_ += count;
  return frame;
}

void FolderSender::kept(int64_t offset) { kept_ = std::clamp(offset, kept_, sent_); }

void FolderSender::later(int64_t offset) {
  kept_ = sent_ = std::clamp<int64_t>(offset, 0, bytes_);
  ended_ = false;
}

void FolderSender::begin_again(int64_t kept) {
  announced_ = kept >= 0;
  kept_ = sent_ = std::clamp<int64_t>(kept, 0, bytes_);
  ended_ = false;
}

}  // namespace mlbench::net::link
