#pragma once

// The server's side of a folder that arrives whole (link.h): it is written under another name, and renamed at its end.

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/files.h"
#include "mlbench/base/json.h"

namespace mlbench::net::link {

class FolderTaker {
 public:
  // `message` is {"op": "folder", ...}. `parents` are the folders below `root` in which such a folder may lie. Throws
  // wire::ProtocolError where it lies in none of them, or where a file would lie outside of it. Nothing is written yet.
  FolderTaker(const std::filesystem::path& root, const std::vector<std::string>& parents, const Json& message);
  // Removes a folder that is not whole.
  ~FolderTaker();
  FolderTaker(const FolderTaker&) = delete;
  FolderTaker& operator=(const FolderTaker&) = delete;

  const std::string& name() const { return name_; }
  int64_t number() const { return number_; }
  int64_t kept() const { return kept_; }  // bytes of all its files together
  bool whole() const { return whole_; }
  // Writes the bytes that follow those kept. Throws IoError where the disk refuses; earlier bytes are kept. Throws
  // wire::ProtocolError where there are more bytes than were announced.
  void write(std::string_view bytes);
  // Puts the folder in its place. Precondition: all bytes are kept. Throws IoError; the call may then be repeated.
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
  size_t current_ = 0;  // index of the current file
  FileDescriptor file_;
  bool begun_ = false, whole_ = false;
};

}  // namespace mlbench::net::link
