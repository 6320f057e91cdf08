#pragma once

// From the spools of run folders into series: reads on from the stored offset, whoever stopped reading there, in
// pieces.

#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "mlbench/base/growing_lines.h"
#include "mlbench/record/points.h"
#include "mlbench/store/series.h"

namespace mlbench::master {

// Thread-safe.
class Ingest {
 public:
  explicit Ingest(store::SeriesStore& series) : series_(series) {}

  // Everything that the ranks of the run, and of them its supervisor, have written until now, as the series of
  // record/points.h. A line that is none, or too long (base/growing_lines.h), is left out, and the log says so.
  // UserError for a damaged run.
  void catch_up(const std::filesystem::path& run_dir);
  // Lines that were left out, over all files.
  int64_t left_out(const std::filesystem::path& run_dir) const;

 private:
  LineCursor cursor(int64_t run, const std::string& key) const;
  // Adds where `cursor` is to what is stored with the points behind it.
  static void keep(std::map<std::string, int64_t>& offsets, const std::string& key, const LineCursor& cursor);
  // Of one line; false for a line that is none.
  using TakeLine = std::function<bool(std::string_view line, record::Points& points)>;
  // Each: a piece of what is new. False where nothing is.
  bool read_lines(const std::filesystem::path& file, int64_t run, const TakeLine& take);
  bool read_some(const std::filesystem::path& run_dir, int64_t run, int64_t segment, int64_t rank);

  void warn_of(const std::filesystem::path& file, int64_t left_out);

  store::SeriesStore& series_;
  std::set<std::filesystem::path> warned_;  // once for each
  std::mutex mutex_;
};

}  // namespace mlbench::master
