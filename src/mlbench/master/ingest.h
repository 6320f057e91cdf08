#pragma once

// Moves spools of run folders into series, in pieces, from the offset that is stored with the points. So it continues
// where an earlier process stopped.

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "mlbench/base/growing_lines.h"
#include "mlbench/master/last_steps.h"
#include "mlbench/record/points.h"
#include "mlbench/store/series.h"

namespace mlbench::master {

// Thread-safe.
class Ingest {
 public:
  // With `last_steps`, that learns of the steps, too.
  explicit Ingest(store::SeriesStore& series, LastSteps* last_steps = nullptr)
      : series_(series), last_steps_(last_steps) {}

  // Stores all that the run's ranks, and its supervisor about them, have written until now, as the series of
  // record/points.h. A line that cannot be read or is too long (base/growing_lines.h) is left out, and logged once per
  // file. Returns the run's id. Throws UserError for a damaged run.
  int64_t catch_up(const std::filesystem::path& run_dir);
  // The number of lines that were left out, over all files of the run.
  int64_t left_out(const std::filesystem::path& run_dir) const;

 private:
  LineCursor cursor(int64_t run, const std::string& key) const;
  // Puts `cursor` under `key` into `offsets`, which are stored with the points before it.
  static void keep(std::map<std::string, int64_t>& offsets, const std::string& key, const LineCursor& cursor);
  // Adds the points of one line; returns false for a line that cannot be read.
  using TakeLine = std::function<bool(std::string_view line, record::Points& points)>;
  // Each function stores one piece of what is new in a file; returns false where nothing is new.
  bool read_lines(const std::filesystem::path& file, int64_t run, const TakeLine& take);
  bool read_some(const std::filesystem::path& run_dir, int64_t run, int64_t segment, int64_t rank);

  void warn_of(const std::filesystem::path& file, int64_t left_out);

  store::SeriesStore& series_;
  LastSteps* const last_steps_;             // may be null
  std::set<std::filesystem::path> warned_;  // files of which a warning was logged
  std::mutex mutex_;
};

}  // namespace mlbench::master
