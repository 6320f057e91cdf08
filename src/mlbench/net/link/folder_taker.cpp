#include "mlbench/net/link/folder_taker.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "mlbench/base/choices.h"
#include "mlbench/base/files.h"
#include "mlbench/base/peer_words.h"
#include "mlbench/base/system_error.h"
#include "mlbench/base/temporary_folders.h"
#include "mlbench/net/kv/wire.h"

namespace mlbench::net::link {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMostFilesOfFolder = 10'000;
// A file is flushed in pieces of so many bytes: flushing a large file at its end would keep all links waiting.
constexpr int64_t kSyncedBytes = int64_t{8} << 20;

// Refuses a file with the name of another file, or of a folder in which another lies: it would end the writing of both.
void refuse_clashes(std::vector<std::string> names, const std::string& folder) {
  std::ranges::sort(names);
  const auto refuse = [&](const std::string& name) {
    throw PeerFault(fmt::format("'{}' comes twice, or is a file and a folder, in '{}'", name, folder));
  };
  if (const auto twice = std::ranges::adjacent_find(names); twice != names.end()) refuse(*twice);
  for (const std::string& name : names) {
    for (size_t slash = name.find('/'); slash != std::string::npos; slash = name.find('/', slash + 1)) {
      if (std::ranges::binary_search(names, name.substr(0, slash))) refuse(name.substr(0, slash));
    }
  }
}

}  // namespace

FolderTaker::FolderTaker(const fs::path& root, const std::vector<std::string>& parents, const Json& message)
    : name_(wire::text_in(message, "name")), number_(wire::integer_in(message, "number")) {
  const fs::path name(name_);
  const bool taken = std::ranges::find(parents, name.parent_path().string()) != parents.end();
  checked(peer_words::kFile, name_);
  if (!taken || name.filename().string().starts_with('.')) {
    throw wire::ProtocolError(fmt::format("'{}' is none of its folders", name_));
  }
  target_ = root / name;
  made_ = target_.parent_path() / (std::string(kUnfinished) + name.filename().string());
  const auto files = message.find("files");
  if (files == message.end() || !files->is_array() || files->size() > kMostFilesOfFolder) {
    throw wire::ProtocolError(fmt::format("'{}' without a list of files", name_));
  }
  for (const Json& each : *files) {
    File file{wire::text_in(each, "name"), bytes_, wire::integer_in(each, "bytes")};
    checked(peer_words::kFile, file.name);
    if (file.bytes < 0 || file.bytes > INT64_MAX - bytes_) {
      throw wire::ProtocolError(fmt::format("'{}' of {} bytes in '{}'", file.name, file.bytes, name_));
    }
    bytes_ += file.bytes;
    files_.push_back(std::move(file));
  }
  refuse_clashes(names_of(files_), name_);
}

FolderTaker::~FolderTaker() {
  file_.reset();
  std::error_code ignored;
  if (begun_ && !whole_) fs::remove_all(made_, ignored);
}

void FolderTaker::write(std::string_view bytes) {
  if (static_cast<int64_t>(bytes.size()) > bytes_ - kept_) {
    throw wire::ProtocolError(fmt::format("more bytes of '{}' than its {}", name_, bytes_));
  }
  while (!bytes.empty()) {
    while (kept_ == files_[current_].begin + files_[current_].bytes) close_file();
    open_file();
    const File& file = files_[current_];
    const auto room = static_cast<size_t>(file.begin + file.bytes - kept_);
    const ssize_t count =
        pwrite(file_.get(), bytes.data(), std::min(room, bytes.size()), static_cast<off_t>(kept_ - file.begin));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_system_error("cannot write " + (made_ / file.name).string(), errno);
    kept_ += count;
    bytes.remove_prefix(static_cast<size_t>(count));
    if (kept_ - synced_ < kSyncedBytes) continue;
    sync_file(file_.get(), made_ / file.name);
    synced_ = kept_;
  }
}

void FolderTaker::finish() {
  if (kept_ < bytes_) throw wire::ProtocolError(fmt::format("'{}' ends before its end", name_));
  if (whole_) return;
  while (current_ < files_.size()) close_file();
  if (!begun_) open_file();  // the folder contains no bytes
  sync_directory(made_);
  replace_directory(made_, target_);
  whole_ = true;
  sync_directory(target_.parent_path());
}

// Opens the current file; before the first file, makes the folder.
void FolderTaker::open_file() {
  std::error_code error;
  if (!begun_) {
    fs::remove_all(made_, error);  // left over from a process that was killed
    if (!error) fs::create_directories(made_, error);
    if (error) throw_system_error("cannot create " + made_.string(), error.value());
    begun_ = true;
  }
  if (file_ || current_ == files_.size()) return;
  const fs::path path = made_ / files_[current_].name;
  make_folder(path.parent_path());
  file_ = FileDescriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666));
  if (!file_) throw_system_error("cannot create " + path.string(), errno);
}

// Closes the current file and goes to the next. Empty files are made here.
void FolderTaker::close_file() {
  open_file();
  sync_file(file_.get(), made_ / files_[current_].name);
  file_.reset();
  ++current_;
}

}  // namespace mlbench::net::link
