#pragma once

// The server's side of a folder that comes whole (link.h): written under another name, renamed at its end.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/json.h"

namespace mlbench::net::link {

class FolderTaker {
 public:
  // `message`: {"op": "folder", ...}. `parents`: in which of them one may be, below `root`. wire::ProtocolError where
  // it is in none, or a file would lie outside of it. Nothing is written yet.
  FolderTaker(const std::filesystem::path& root, const std::vector<std::string>& parents, const Json& message);
  // What is not whole goes.
  ~FolderTaker();
  FolderTaker(const FolderTaker&) = delete;
  FolderTaker& operator=(const FolderTaker&) = delete;

  const std::string& name() const { return name_; }
  int64_t number() const { return number_; }
  int64_t kept() const { return kept_; }  // bytes of all its files
  bool whole() const { return whole_; }
  // Bytes behind those that are kept. IoError where the disk refuses: those before are kept. wire::ProtocolError where
  // there are more than were announced.
  void write(std::string_view bytes);
  // All bytes are kept: puts the folder in its place. IoError, and it may be tried again.
  void finish();

 private:
  struct File {
    std::string name;
    int64_t begin = 0, bytes = 0;
  };
  void open_file();
  void close_file();

  std::string name_;
  int64_t number_ = 0;
  std::filesystem::path target_, made_;
  std::vector<File> files_;
  int64_t bytes_ = 0, kept_ = 0, synced_ = 0;
  size_t current_ = 0;  // file
  FileDescriptor file_;
  bool begun_ = false, whole_ = false;
};

}  // namespace mlbench::net::link
