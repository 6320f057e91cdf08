#pragma once

// The client's side of folders that arrive whole (link.h): which folders are new, and their bytes.

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

// Remembers the folders below some parent folders, each by name and inode.
class SeenFolders {
 public:
  // Returns the first by name of the folders that are new or were replaced, which counts as seen from now on.
  std::optional<std::string> next(const std::filesystem::path& root, const std::vector<std::string>& parents);

 private:
  std::map<std::string, ino_t> seen_;
};

// One folder as it is when this object is made. Its files stay open, whatever becomes of the folder's name.
class FolderSender {
 public:
  // Throws IoError where the folder cannot be read: it was removed.
  FolderSender(const std::filesystem::path& root, std::string name, int64_t number);
  const std::string& name() const { return name_; }
  int64_t number() const { return number_; }
  int64_t under_way() const { return sent_ - kept_; }
  // The next message, encoded, with at most `most` bytes of content; empty when an answer must come first. Throws
  // IoError where a file is shorter than it was.
  std::string take_frame(size_t most);
  // Take the server's answers.
  void kept(int64_t offset);
  void later(int64_t offset);
  // Called on a new connection. `kept` is how many bytes the server has; -1 when it has not heard of this folder.
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
