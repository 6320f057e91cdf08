#pragma once

// That a file was checked as a whole, beside it in FILE.checked-HOST: by this build, on this host, the file being what
// it is now. So what costs a pass over all of its bytes is done once, and not by every rank at every start.
//
// A mark counts as long as build id, size, time of change and inode are those that it names. What damages a file and
// leaves all of these alone (a failing disk) is seen by the next build, or when the mark is removed.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "mlbench/base/json.h"

namespace mlbench::dataset {

class VerifiedMark {
 public:
  // Looks at the file as it is now: before a check, so that what happens to it in the meantime makes the mark void.
  // A file that was just written is waited for, some milliseconds, until another change cannot have the same time.
  explicit VerifiedMark(const std::filesystem::path& file);

  // What the check found, where one is on record.
  std::optional<Json> facts() const;
  // A check has found this. A folder that takes no files keeps no mark.
  void write(const Json& facts) const;
  const std::filesystem::path& path() const { return path_; }

 private:
  Json identity() const;

  std::filesystem::path path_;
  int64_t size_ = -1, changed_ns_ = 0;  // size -1: there is no such file
  uint64_t inode_ = 0;
};

// The facts of a mark that counts; else those of `check`, which one process at a time makes, so that the others find
// its mark. What it throws, is thrown.
Json check_once(const std::filesystem::path& file, const std::function<Json()>& check);

}  // namespace mlbench::dataset
