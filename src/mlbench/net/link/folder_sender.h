#pragma once

// The client's side of folders that come whole (link.h): what is new, and its bytes.

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/json.h"

namespace mlbench::net::link {

// Folders below some others, each known by its name and inode.
class SeenFolders {
 public:
  // A folder that was not there before, or was replaced: the first by name. It counts as seen.
  std::optional<std::string> next(const std::filesystem::path& root, const std::vector<std::string>& parents);

 private:
  std::map<std::string, ino_t> seen_;
};

// One folder, as it is when this is made: its files stay open, whatever becomes of the name.
class FolderSender {
 public:
  // IoError where it cannot be read: it was removed.
  FolderSender(const std::filesystem::path& root, std::string name, int64_t number);
  const std::string& name() const { return name_; }
  int64_t number() const { return number_; }
  int64_t under_way() const { return sent_ - kept_; }
  // The next message, encoded, of at most `most` bytes of content; empty: nothing to send before an answer. IoError
  // where a file is shorter than it was.
  std::string take_frame(size_t most);
  // Answers of the server.
  void kept(int64_t offset);
  void later(int64_t offset);
  // On a new connection: where the server is, which has heard of this folder, or (-1) not.
  void begin_again(int64_t kept);

 private:
  struct File {
    std::string name;
    FileDescriptor file;
    int64_t begin = 0, bytes = 0;
  };
  const std::string name_;
  const int64_t number_;
  std::vector<File> files_;
  int64_t bytes_ = 0, sent_ = 0, kept_ = 0;
  bool announced_ = false, ended_ = false;
};

}  // namespace mlbench::net::link
