#pragma once

// Databases of LMDB (http://www.lmdb.tech/doc/). liblmdb trusts the pages of a file: a damaged page makes it read
// beyond the file, which ends the process. So liblmdb is linked into a program of its own, mlbench-lmdb, which writes
// the entries of a database to its standard output. Internal to dataset/.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/base/process.h"

namespace mlbench::dataset {

// The path of mlbench-lmdb, as program_beside() finds it. No file need exist at the path.
std::filesystem::path lmdb_program();

// The entries of a database's file in the order of their keys, but `__keys__`, the list of all keys that tensorpack
// adds. Nothing is written beside the file.
class LmdbEntries {
 public:
  // Throws UserError where mlbench-lmdb is missing, and IoError where it cannot be started.
  explicit LmdbEntries(const std::filesystem::path& file);
  ~LmdbEntries();
  LmdbEntries(const LmdbEntries&) = delete;
  LmdbEntries& operator=(const LmdbEntries&) = delete;

  struct Entry {
    std::string_view key, value;  // valid until the next call
  };
  // Empty at the end. Throws UserError where the file is no whole database, and where an entry is larger than
  // inputs::kStoredRow.
  std::optional<Entry> next();

 private:
  size_t read_some(char* out, size_t bytes);
  void read_exactly(char* out, size_t bytes);
  void expect_success();

  std::filesystem::path file_;
  FileDescriptor entries_, errors_;
  std::optional<ChildProcess> program_;  // empty: its end was seen
  std::vector<char> buffer_;
};

}  // namespace mlbench::dataset
