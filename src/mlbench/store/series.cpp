#include "mlbench/store/series.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <limits>
#include <system_error>

#include "mlbench/base/system_error.h"
#include "mlbench/store/sqlite.h"

namespace mlbench::store {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kSeriesVersion = 2;
constexpr size_t kChunkPoints = 1000;
constexpr size_t kParts = 32;
constexpr size_t kReaders = 8;  // threads for a chart of several series, which mostly wait for the disk

static_assert(sizeof(Point) == 24 && sizeof(Bucket) == 64, "both are stored as they lie in memory");

template <typename T>
std::string_view bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
std::vector<T> values_of(std::string_view bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

Bucket bucket_of(std::span<const Point> points) {
  Bucket bucket;
  bucket.first_time_us = bucket.last_time_us = points.front().time_us;
  bucket.first_step = bucket.last_step = points.front().step;
  bucket.min = std::numeric_limits<double>::infinity();
  bucket.max = -bucket.min;
  for (const Point& point : points) {
    bucket.first_time_us = std::min(bucket.first_time_us, point.time_us);
    bucket.last_time_us = std::max(bucket.last_time_us, point.time_us);
    bucket.first_step = std::min(bucket.first_step, point.step);
    bucket.last_step = std::max(bucket.last_step, point.step);
    bucket.min = std::min(bucket.min, point.value);
    bucket.max = std::max(bucket.max, point.value);
    bucket.sum += point.value;
  }
  bucket.count = std::ssize(points);
  return bucket;
}

void merge(Bucket& into, const Bucket& next) {
  into.first_time_us = std::min(into.first_time_us, next.first_time_us);
  into.last_time_us = std::max(into.last_time_us, next.last_time_us);
  into.first_step = std::min(into.first_step, next.first_step);
  into.last_step = std::max(into.last_step, next.last_step);
  into.min = std::min(into.min, next.min);
  into.max = std::max(into.max, next.max);
  into.sum += next.sum;
  into.count += next.count;
}

bool inside(const Bucket& bucket, const SeriesRange& range) {
  return bucket.last_step >= range.from_step && bucket.first_step <= range.to_step &&
         bucket.last_time_us >= range.from_time_us && bucket.first_time_us <= range.to_time_us;
}

std::vector<Bucket> thinned(const std::vector<Bucket>& buckets, size_t most) {
  if (buckets.size() <= most) return buckets;
  const size_t group = (buckets.size() + most - 1) / most;
  std::vector<Bucket> out;
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (i % group == 0) {
      out.push_back(buckets[i]);
    } else {
      merge(out.back(), buckets[i]);
    }
  }
  return out;
}

std::optional<int64_t> find_series(Database& database, int64_t run, const SeriesKey& key) {
  Statement find(database, "SELECT id FROM series WHERE run = ? AND split = ? AND metric = ? AND rank = ?");
  find.bind(1, run).bind(2, key.split).bind(3, key.metric).bind(4, key.rank);
  if (!find.step()) return std::nullopt;
  return find.integer(0);
}

void set_up(Database& database) {
  database.execute(
      "CREATE TABLE IF NOT EXISTS series (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, split TEXT NOT NULL,"
      "  metric TEXT NOT NULL, rank INTEGER NOT NULL, count INTEGER NOT NULL DEFAULT 0,"
      "  time_us INTEGER NOT NULL DEFAULT 0, step INTEGER NOT NULL DEFAULT 0, value REAL,"
      "  UNIQUE (run, split, metric, rank));"
      "CREATE TABLE IF NOT EXISTS chunk (series INTEGER NOT NULL, number INTEGER NOT NULL, count INTEGER NOT NULL,"
      "  time_0 INTEGER NOT NULL, time_1 INTEGER NOT NULL, step_0 INTEGER NOT NULL, step_1 INTEGER NOT NULL,"
      "  min REAL, max REAL, sum REAL, PRIMARY KEY (series, number)) WITHOUT ROWID;"
      // The parts come first: reading them alone does not touch the pages of the points.
      "CREATE TABLE IF NOT EXISTS chunk_data (id INTEGER PRIMARY KEY, series INTEGER NOT NULL, number INTEGER NOT NULL,"
      "  parts BLOB NOT NULL, points BLOB NOT NULL, UNIQUE (series, number));"
      "CREATE TABLE IF NOT EXISTS source (run INTEGER NOT NULL, name TEXT NOT NULL, offset INTEGER NOT NULL,"
      "  PRIMARY KEY (run, name)) WITHOUT ROWID;"
      "PRAGMA user_version = 2;");
}

std::unique_ptr<Database> open(const fs::path& file) {
  auto database = std::make_unique<Database>(file);
  int64_t version = 0;
  {
    Statement statement(*database, "PRAGMA user_version");
    statement.step();
    version = statement.integer(0);
  }
  if (version != 0 && version != kSeriesVersion) {
    throw IoError(file.string() + " is of version " + std::to_string(version) + "; this program reads version " +
                  std::to_string(kSeriesVersion) + ": move it away, or use the mlbench that wrote it");
  }
  set_up(*database);
  return database;
}

void put_chunk(Database& database, int64_t series, int64_t number, const std::vector<Point>& points) {
  const Bucket whole = bucket_of(points);
  std::vector<Bucket> parts;
  const size_t part = (points.size() + kParts - 1) / kParts;
  for (size_t i = 0; i < points.size(); i += part) {
    parts.push_back(bucket_of(std::span(points).subspan(i, std::min(part, points.size() - i))));
  }
  Statement chunk(database, "INSERT OR REPLACE INTO chunk VALUES (?,?,?,?,?,?,?,?,?,?)");
  chunk.bind(1, series).bind(2, number).bind(3, whole.count).bind(4, whole.first_time_us).bind(5, whole.last_time_us);
  chunk.bind(6, whole.first_step).bind(7, whole.last_step).bind(8, whole.min).bind(9, whole.max).bind(10, whole.sum);
  chunk.run();
  Statement data(database,
                 "INSERT INTO chunk_data (series, number, parts, points) VALUES (?1,?2,?3,?4)"
                 " ON CONFLICT (series, number) DO UPDATE SET parts = ?3, points = ?4");
  data.bind(1, series).bind(2, number).bind_blob(3, bytes_of(parts)).bind_blob(4, bytes_of(points));
  data.run();
}

}  // namespace

SeriesStore::SeriesStore(const fs::path& file, bool replaceable) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) throw IoError("cannot create " + file.parent_path().string() + ": " + error.message());
  try {
    database_ = open(file);
  } catch (const IoError& refused) {
    if (!replaceable || is_transient(refused)) throw;
    for (const char* suffix : {"", "-wal", "-shm"}) fs::remove(file.string() + suffix, error);
    database_ = open(file);
  }
}

SeriesStore::~SeriesStore() = default;

void SeriesStore::append(int64_t run, const Points& points, const std::map<std::string, int64_t>& offsets) {
  const std::lock_guard lock(mutex_);
  Transaction transaction(*database_);
  append_in_transaction(run, points);
  Statement source(*database_, "INSERT OR REPLACE INTO source (run, name, offset) VALUES (?,?,?)");
  for (const auto& [name, offset] : offsets) source.bind(1, run).bind(2, name).bind(3, offset).run();
  transaction.commit();
}

void SeriesStore::append_in_transaction(int64_t run, const Points& points) {
  for (const auto& [key, added] : points) {
    if (added.empty()) continue;
    auto id = find_series(*database_, run, key);
    if (!id) {
      Statement insert(*database_, "INSERT INTO series (run, split, metric, rank) VALUES (?,?,?,?)");
      insert.bind(1, run).bind(2, key.split).bind(3, key.metric).bind(4, key.rank).run();
      id = database_->last_row_id();
    }
    int64_t number = 0;
    std::vector<Point> chunk;
    Statement last(*database_, "SELECT number, count FROM chunk WHERE series = ? ORDER BY number DESC LIMIT 1");
    if (last.bind(1, *id).step()) {
      number = last.integer(0);
      if (last.integer(1) < static_cast<int64_t>(kChunkPoints)) {
        Statement data(*database_, "SELECT points FROM chunk_data WHERE series = ? AND number = ?");
        if (data.bind(1, *id).bind(2, number).step()) chunk = values_of<Point>(data.blob(0));
      } else {
        ++number;
      }
    }
    last.reset();
    for (size_t used = 0; used < added.size();) {
      const size_t count = std::min(kChunkPoints - chunk.size(), added.size() - used);
      chunk.insert(chunk.end(), added.begin() + static_cast<std::ptrdiff_t>(used),
                   added.begin() + static_cast<std::ptrdiff_t>(used + count));
      used += count;
      put_chunk(*database_, *id, number, chunk);
      if (chunk.size() == kChunkPoints) {
        chunk.clear();
        ++number;
      }
    }
    Statement update(*database_,
                     "UPDATE series SET count = count + ?2, time_us = ?3, step = ?4, value = ?5 WHERE id = ?1");
    update.bind(1, *id).bind(2, static_cast<int64_t>(added.size()));
    update.bind(3, added.back().time_us).bind(4, added.back().step).bind(5, added.back().value).run();
  }
}

int64_t SeriesStore::offset(int64_t run, const std::string& source) const {
  const std::lock_guard lock(mutex_);
  Statement statement(*database_, "SELECT offset FROM source WHERE run = ? AND name = ?");
  return statement.bind(1, run).bind(2, source).step() ? statement.integer(0) : 0;
}

std::vector<SeriesInfo> SeriesStore::list(int64_t run) const {
  const std::lock_guard lock(mutex_);
  std::vector<SeriesInfo> out;
  Statement rows(*database_,
                 "SELECT split, metric, rank, count, time_us, step, value FROM series WHERE run = ?"
                 " ORDER BY split, metric, rank");
  rows.bind(1, run);
  while (rows.step()) {
    out.push_back({{std::string(rows.text(0)), std::string(rows.text(1)), rows.integer(2)},
                   rows.integer(3),
                   {rows.integer(4), rows.integer(5), rows.real(6)}});
  }
  return out;
}

namespace {

std::vector<Bucket> read_series(Database& database, int64_t run, const SeriesKey& key, const SeriesRange& range) {
  const auto id = find_series(database, run, key);
  if (!id) return {};
  std::vector<Bucket> chunks;
  std::vector<int64_t> numbers;
  Statement rows(database,
                 "SELECT number, count, time_0, time_1, step_0, step_1, min, max, sum FROM chunk WHERE series = ?"
                 " ORDER BY number");
  rows.bind(1, *id);
  while (rows.step()) {
    const Bucket bucket{rows.integer(2), rows.integer(3), rows.integer(4), rows.integer(5),
                        rows.real(6),    rows.real(7),    rows.real(8),    rows.integer(1)};
    if (!inside(bucket, range)) continue;
    chunks.push_back(bucket);
    numbers.push_back(rows.integer(0));
  }
  if (chunks.size() >= range.buckets) return thinned(chunks, range.buckets);
  const bool parts = chunks.size() * kParts >= range.buckets;
  std::vector<Bucket> out;
  Statement data(database, parts ? "SELECT parts FROM chunk_data WHERE series = ? AND number = ?"
                                 : "SELECT points FROM chunk_data WHERE series = ? AND number = ?");
  for (const int64_t number : numbers) {
    data.reset();
    if (!data.bind(1, *id).bind(2, number).step()) continue;
    const auto take = [&](const Bucket& bucket) {
      if (inside(bucket, range)) out.push_back(bucket);
    };
    if (parts) {
      for (const Bucket& bucket : values_of<Bucket>(data.blob(0))) take(bucket);
    } else {
      for (const Point& point : values_of<Point>(data.blob(0))) take(bucket_of({&point, 1}));
    }
  }
  return thinned(out, range.buckets);
}

}  // namespace

std::vector<Bucket> SeriesStore::read(int64_t run, const SeriesKey& key, const SeriesRange& range) const {
  const std::lock_guard lock(mutex_);
  return read_series(*database_, run, key, range);
}

std::vector<std::vector<Bucket>> SeriesStore::read(int64_t run, const std::vector<SeriesKey>& keys,
                                                   const SeriesRange& range) const {
  std::vector<std::vector<Bucket>> out(keys.size());
  if (keys.size() == 1) out[0] = read(run, keys[0], range);
  if (keys.size() <= 1) return out;
  std::atomic<size_t> next{0};
  const auto work = [&] {
    Database database(database_->path(), true);
    for (size_t i = next++; i < keys.size(); i = next++) out[i] = read_series(database, run, keys[i], range);
  };
  std::vector<std::future<void>> threads;
  for (size_t i = 0; i < std::min(kReaders, keys.size()); ++i) {
    threads.push_back(std::async(std::launch::async, work));
  }
  for (std::future<void>& thread : threads) thread.get();
  return out;
}

std::vector<Point> SeriesStore::read_points(int64_t run, const SeriesKey& key) const {
  const std::lock_guard lock(mutex_);
  std::vector<Point> out;
  const auto id = find_series(*database_, run, key);
  if (!id) return out;
  Statement data(*database_, "SELECT points FROM chunk_data WHERE series = ? ORDER BY number");
  data.bind(1, *id);
  while (data.step()) {
    const auto points = values_of<Point>(data.blob(0));
    out.insert(out.end(), points.begin(), points.end());
  }
  return out;
}

void SeriesStore::remove_run(int64_t run) {
  const std::lock_guard lock(mutex_);
  Transaction transaction(*database_);
  for (const char* sql : {"DELETE FROM chunk_data WHERE series IN (SELECT id FROM series WHERE run = ?)",
                          "DELETE FROM chunk WHERE series IN (SELECT id FROM series WHERE run = ?)",
                          "DELETE FROM series WHERE run = ?", "DELETE FROM source WHERE run = ?"}) {
    Statement(*database_, sql).bind(1, run).run();
  }
  transaction.commit();
}

}  // namespace mlbench::store
