#pragma once

// From the spools of run folders into series: reads on from the stored offset, whoever stopped reading there.

#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "mlbench/store/series.h"

namespace mlbench::master {

// Thread-safe.
class Ingest {
 public:
  explicit Ingest(store::SeriesStore& series) : series_(series) {}

  // Everything that the ranks of the run have written until now, as the series of spec/points.h. A line that is
  // none is left out, and the log says so. UserError for a damaged run.
  void catch_up(const std::filesystem::path& run_dir);

 private:
  bool read_lines(const std::filesystem::path& run_dir, int64_t run, int64_t rank);
  bool read_some(const std::filesystem::path& run_dir, int64_t run, int64_t segment, int64_t rank);

  void warn_of(const std::filesystem::path& file, int64_t left_out);

  store::SeriesStore& series_;
  std::set<std::filesystem::path> warned_;  // once for each
  std::mutex mutex_;
};

}  // namespace mlbench::master
