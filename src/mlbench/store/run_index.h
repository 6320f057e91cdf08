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
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>

namespace mlbench::store {

class Database;

// By what a list is ordered: nothing where the run has no such figure.
using FigureValue = std::variant<std::monostate, double, std::string>;

struct IndexedRun {
  int64_t id = 0;
  std::string name, state, task;
  int64_t stamp = 0;       // of the record's file; shows whether the record changed
  std::string summary;     // JSON, as lists show it
  std::string words = {};  // what a search looks through
  std::string workers = {}, executor = {};
  std::vector<std::string> labels = {}, tags = {};  // each without a line end
  std::map<std::string, FigureValue> figures = {};  // by name
};

// What a list knows of a run before it shows it.
struct ListedRun {
  int64_t id = 0;
  std::string name, state, task, workers, executor, configuration;
  std::vector<std::string> labels, tags;
};

// Thread-safe.
class RunIndex {
 public:
  // An index made by another version is thrown away.
  explicit RunIndex(const std::filesystem::path& store_dir);
  ~RunIndex();
  // Adds runs, or replaces what is there of them but for their configurations.
  void put(const std::vector<IndexedRun>& runs);
  void remove(const std::vector<std::string>& names);
  // Sets the configurations of runs that are there, by name; they are "" at first.
  void set_configurations(const std::map<std::string, std::string>& configurations);
  std::vector<ListedRun> list() const;                                                           // the newest first
  std::vector<std::string> newest_summaries(int64_t most, const std::string& state = "") const;  // "": any state
  // In the order of `names`; a run that is gone is left out.
  std::vector<std::string> summaries(const std::vector<std::string>& names) const;
  // The runs that have the figure.
  std::unordered_map<std::string, FigureValue> figure(const std::string& key) const;
  // Runs whose name or words hold all of `parts`, in upper or lower case.
  std::unordered_set<std::string> search(const std::vector<std::string>& parts) const;
  // The run of that name, and those whose names begin with it and a dot.
  std::vector<std::string> names_below(const std::string& name) const;  // by id
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
