#pragma once

// What clients outside sent: HOME/store/journal.sqlite. Never built again, so it is part of a backup. What a call
// returns from is with the kernel, so it survives this process; flush() makes it survive the power.

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
  int64_t sequence = 0;  // counts up per rank of a run; gaps are allowed
  int64_t time_us = 0;
  int64_t step = 0;
  std::vector<std::pair<std::string_view, double>> values;  // by flat name (record/legacy_names.h)
};

struct BatchResult {
  int64_t accepted = 0;
  int64_t duplicates = 0;  // of a sequence number that was there already
  int64_t points = 0;
};

// A value that one of MLBench's clients posted, as it is given back: text.
struct PostedMetric {
  std::string name, value, metadata;
  int64_t time_us = 0;
  bool cumulative = false;
};

struct PostedQuery {
  std::string name = {};  // "" for all
  int64_t from_time_us = INT64_MIN;
};

// Thread-safe.
class Journal {
 public:
  explicit Journal(const std::filesystem::path& store_dir);  // IoError for a file of another version
  ~Journal();

  // Committed on return. Records with a sequence number up to the largest one seen of their rank are duplicates.
  BatchResult add_batch(int64_t run, const std::vector<ClientRecord>& records);
  std::map<int64_t, int64_t> last_sequences(int64_t run) const;
  // Moves batches into series; returns whether there is more to do.
  bool compact(size_t most_points = 500'000);
  // Series of batches; compacts what is left of them first.
  SeriesStore& series();

  void post(int64_t run, const PostedMetric& metric);
  std::vector<PostedMetric> posted(int64_t run, const PostedQuery& query = {}) const;  // by name, then time

  void remove_run(int64_t run);
  void flush();

 private:
  SeriesStore series_;  // has the database
  struct Statements;
  std::unique_ptr<Statements> statements_;
};

}  // namespace mlbench::store
