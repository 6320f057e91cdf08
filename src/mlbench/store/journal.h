#pragma once

// What clients outside sent: HOME/store/journal.sqlite. The journal cannot be built again, so it belongs into a backup.
// When a call returns, the kernel has its data, which then survives this process; after flush() the data survives a
// power failure.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/store/series.h"

namespace mlbench::store {

// One record of a batch: the values of a rank at a step.
struct ClientRecord {
  int64_t rank = 0;
  int64_t sequence = 0;  // counts up for each rank of a run; gaps are allowed
  int64_t time_us = 0;
  int64_t step = 0;
  std::vector<std::pair<std::string_view, double>> values;  // by flat name (record/legacy_names.h)
};

struct BatchResult {
  int64_t accepted = 0;
  int64_t duplicates = 0;  // records whose sequence number was there already
  int64_t points = 0;
};

// A value that one of MLBench's clients posted. The value is returned as it came: text.
struct PostedMetric {
  std::string name, value, metadata;
  int64_t time_us = 0;  // the client's own date, which is all that orders values: clients post in parallel
  bool cumulative = false;
};

struct PostedQuery {
  std::string name = {};  // "" for all
  int64_t from_time_us = INT64_MIN;
};

// Thread-safe.
class Journal {
 public:
  explicit Journal(const std::filesystem::path& store_dir);  // throws IoError for a file of another version
  ~Journal();

  // The records are committed on return. A record is a duplicate when its sequence number is not above the largest one
  // seen of its rank.
  BatchResult add_batch(int64_t run, const std::vector<ClientRecord>& records);
  std::map<int64_t, int64_t> last_sequences(int64_t run) const;
  // Moves batches into series. Returns whether there is more to do.
  bool compact(size_t most_points = 500'000);
  // The series of batches; the call first compacts what is left of them.
  SeriesStore& series();

  void post(int64_t run, const PostedMetric& metric);
  std::vector<PostedMetric> posted(int64_t run, const PostedQuery& query = {}) const;  // by name, then time_us

  void remove_run(int64_t run);
  void flush();

 private:
  SeriesStore series_;  // owns the database
  struct Statements;
  std::unique_ptr<Statements> statements_;
};

}  // namespace mlbench::store
