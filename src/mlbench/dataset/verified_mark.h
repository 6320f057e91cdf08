#pragma once

// A mark beside a file, FILE.checked-HOST, that says: this build checked all of the file, on this host, as the file is
// now. So a check that reads all bytes is done once, and not by every rank at every start.
//
// A mark counts as long as build id, size, modification time and inode are those that it names. Damage that changes
// none of these (a failing disk) is found by the next build, or when the mark is removed.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "mlbench/base/json.h"

namespace mlbench::dataset {

class VerifiedMark {
 public:
  // Looks at the file as it is now. Must be made before a check, so that a change during the check makes the mark void.
  // For a file that was written within the last 20 ms, it waits until another change cannot have the same time.
  explicit VerifiedMark(const std::filesystem::path& file);

  // What the check found, where a mark that counts is there.
  std::optional<Json> facts() const;
  // Writes the mark: a check has found `facts`. Does nothing where the folder cannot be written to.
  void write(const Json& facts) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  Json identity() const;

  std::filesystem::path path_;
  int64_t size_ = -1, changed_ns_ = 0;  // size -1: the file does not exist
  uint64_t inode_ = 0;
};

// The facts of a mark that counts. Without one, calls `check`, marks what it returns, and returns that; what `check`
// throws passes through. One process at a time checks, under a file lock, so that the others find its mark.
Json check_once(const std::filesystem::path& file, const std::function<Json()>& check);

}  // namespace mlbench::dataset
