#pragma once

// What the run folders of a home say, for lists: HOME/store/index.sqlite. While no master runs, it may be deleted at
// any time; it is then built again from the folders.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace mlbench::store {

class Database;

struct IndexedRun {
  int64_t id = 0;
  std::string name, state, task;
  int64_t stamp = 0;       // of the record's file; shows whether the record changed
  std::string summary;     // JSON, as lists show it
  std::string words = {};  // what was said about the run, for searches
};

struct RunQuery {
  std::string state = {}, task = {};  // "" means any
  std::string search = {};            // a part of a name or of the words, in upper or lower case
  bool newest_first = true;
  int64_t limit = 100, offset = 0;
};

struct RunPage {
  int64_t total = 0;  // all that match, without limit and offset
  std::vector<std::string> summaries;
};

// Thread-safe.
class RunIndex {
 public:
  // An index made by another version is thrown away.
  explicit RunIndex(const std::filesystem::path& store_dir);
  ~RunIndex();
  void put(const std::vector<IndexedRun>& runs);
  void remove(const std::vector<std::string>& names);
  RunPage find(const RunQuery& query) const;
  std::optional<std::string> name_of(int64_t id) const;
  std::optional<int64_t> id_of(const std::string& name) const;
  std::map<std::string, int64_t> stamps() const;
  std::vector<std::string> names_in_state(const std::string& state) const;
  std::map<std::string, int64_t> count_by_state() const;

 private:
  mutable std::mutex mutex_;
  std::unique_ptr<Database> database_;
};

}  // namespace mlbench::store
