#pragma once

// Series of points, stored for charts: chunks of up to 1,000 points. A chunk has min, max, mean and count of itself and
// of its 32 parts, so that a chart of any range reads a few thousand rows, never all points. Two files have such
// series:
//   HOME/store/series.sqlite   what the spools of run folders say, with the offset read so far (may be deleted)
//   HOME/store/journal.sqlite  what clients sent (journal.h; cannot be built again)

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mlbench/record/points.h"

namespace mlbench::store {

class Database;

using record::Point;
using record::Points;
using record::SeriesKey;

struct SeriesInfo {
  SeriesKey key;
  int64_t count = 0;
  Point last;
};

// Several consecutive points as one.
struct Bucket {
  int64_t first_time_us = 0, last_time_us = 0;  // the smallest and the largest: a clock may have gone back
  int64_t first_step = 0, last_step = 0;        // the smallest and the largest
  double min = 0, max = 0, sum = 0;             // NaN where a point was not a number
  int64_t count = 0;
  double mean() const { return sum / static_cast<double>(count); }
};

struct SeriesRange {
  int64_t from_step = INT64_MIN, to_step = INT64_MAX;  // both included; a bucket at the edge may reach beyond it
  int64_t from_time_us = INT64_MIN, to_time_us = INT64_MAX;
  size_t buckets = 1000;  // the most buckets
};

// Thread-safe. A class that shares the database (Journal) locks `mutex_` itself.
class SeriesStore {
 public:
  // Throws away a damaged file, or one of another version, when `replaceable`; else throws IoError.
  SeriesStore(const std::filesystem::path& file, bool replaceable);
  ~SeriesStore();

  // Appends all of the points or none, together with the offsets in the files that the points came from.
  void append(int64_t run, const Points& points, const std::map<std::string, int64_t>& offsets = {});
  int64_t offset(int64_t run, const std::string& source) const;  // 0 at first
  std::vector<SeriesInfo> list(int64_t run) const;               // by key
  // Returns buckets in the order in which the points came.
  std::vector<Bucket> read(int64_t run, const SeriesKey& key, const SeriesRange& range) const;
  // Reads several series, in the order of `keys`. Several threads read, each with a connection of its own: a disk that
  // is asked for one page at a time is slow.
  std::vector<std::vector<Bucket>> read(int64_t run, const std::vector<SeriesKey>& keys,
                                        const SeriesRange& range) const;
  std::vector<Point> read_points(int64_t run, const SeriesKey& key) const;
  void remove_run(int64_t run);

 private:
  friend class Journal;
  void append_in_transaction(int64_t run, const Points& points);

  mutable std::mutex mutex_;
  std::unique_ptr<Database> database_;
};

}  // namespace mlbench::store
