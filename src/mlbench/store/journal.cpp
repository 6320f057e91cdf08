#include "mlbench/store/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "mlbench/base/files.h"
#include "mlbench/base/system_error.h"
#include "mlbench/record/legacy_names.h"
#include "mlbench/store/sqlite.h"

namespace mlbench::store {

namespace {

// Encodes a batch as one row: per point rank, time, step, value, and the name's length and bytes.
template <typename T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
T take(std::string_view& in) {
  MLBENCH_CHECK(in.size() >= sizeof(T), "a row of the journal is cut");
  T value;
  std::memcpy(&value, in.data(), sizeof value);
  in.remove_prefix(sizeof value);
  return value;
}

}  // namespace

struct Journal::Statements {
  explicit Statements(Database& database)
      : insert_batch(database, "INSERT INTO batch (run, points, data) VALUES (?,?,?)"),
        last(database, "SELECT sequence FROM sequence WHERE run = ? AND rank = ?"),
        put_last(database, "INSERT OR REPLACE INTO sequence (run, rank, sequence) VALUES (?,?,?)"),
        post(database, "INSERT INTO posted (run, name, value, metadata, time_us, cumulative) VALUES (?,?,?,?,?,?)") {}
  Statement insert_batch, last, put_last, post;
};

Journal::Journal(const std::filesystem::path& store_dir) : series_(store_dir / "journal.sqlite", false) {
  series_.database_->execute(
      "CREATE TABLE IF NOT EXISTS batch (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, points INTEGER NOT NULL,"
      "  data BLOB NOT NULL);"
      "CREATE TABLE IF NOT EXISTS sequence (run INTEGER NOT NULL, rank INTEGER NOT NULL, sequence INTEGER NOT NULL,"
      "  PRIMARY KEY (run, rank)) WITHOUT ROWID;"
      "CREATE TABLE IF NOT EXISTS posted (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, name TEXT NOT NULL,"
      "  value TEXT NOT NULL, metadata TEXT NOT NULL, time_us INTEGER NOT NULL, cumulative INTEGER NOT NULL);"
      "CREATE INDEX IF NOT EXISTS posted_by_name ON posted (run, name, time_us);");
  statements_ = std::make_unique<Statements>(*series_.database_);
}

Journal::~Journal() = default;

BatchResult Journal::add_batch(int64_t run, const std::vector<ClientRecord>& records) {
  const std::lock_guard lock(series_.mutex_);
  BatchResult result;
  Transaction transaction(*series_.database_);
  std::map<int64_t, int64_t> seen;
  std::string data;
  for (const ClientRecord& record : records) {
    auto last = seen.find(record.rank);
    if (last == seen.end()) {
      Statement& known = statements_->last;
      const int64_t before = known.bind(1, run).bind(2, record.rank).step() ? known.integer(0) : INT64_MIN;
      known.reset();
      last = seen.emplace(record.rank, before).first;
    }
    if (record.sequence <= last->second) {
      ++result.duplicates;
      continue;
    }
    last->second = record.sequence;
    ++result.accepted;
    for (const auto& [name, value] : record.values) {
      put(data, record.rank);
      put(data, Point{record.time_us, record.step, value});
      put(data, static_cast<uint32_t>(name.size()));
      data += name;
      ++result.points;
    }
  }
  if (result.accepted > 0) {
    statements_->insert_batch.bind(1, run).bind(2, result.points).bind_blob(3, data).run();
    for (const auto& [rank, sequence] : seen) statements_->put_last.bind(1, run).bind(2, rank).bind(3, sequence).run();
  }
  transaction.commit();
  return result;
}

std::map<int64_t, int64_t> Journal::last_sequences(int64_t run) const {
  const std::lock_guard lock(series_.mutex_);
  std::map<int64_t, int64_t> out;
  Statement rows(*series_.database_, "SELECT rank, sequence FROM sequence WHERE run = ?");
  rows.bind(1, run);
  while (rows.step()) out[rows.integer(0)] = rows.integer(1);
  return out;
}

bool Journal::compact(size_t most_points) {
  const std::lock_guard lock(series_.mutex_);
  Transaction transaction(*series_.database_);
  using Names = std::map<std::pair<int64_t, std::string>, std::vector<Point>>;  // by rank and name, as they were sent
  std::map<int64_t, Names> runs;
  size_t points = 0;
  int64_t last = 0;
  bool more = false;
  {
    Statement rows(*series_.database_, "SELECT id, run, data FROM batch ORDER BY id");
    while (rows.step()) {
      if (points >= most_points) {
        more = true;
        break;
      }
      last = rows.integer(0);
      std::string_view data = rows.blob(2);
      Names& of_run = runs[rows.integer(1)];
      while (!data.empty()) {
        const auto rank = take<int64_t>(data);
        const auto point = take<Point>(data);
        const auto size = take<uint32_t>(data);
        MLBENCH_CHECK(data.size() >= size, "a row of the journal is cut");
        of_run[{rank, std::string(data.substr(0, size))}].push_back(point);
        data.remove_prefix(size);
        ++points;
      }
    }
  }
  if (last == 0) return false;
  for (auto& [run, of_run] : runs) {
    Points points;
    for (auto& [name, values] : of_run) {
      points[record::key_of_legacy_name(name.second, name.first)] = std::move(values);
    }
    series_.append_in_transaction(run, points);
  }
  Statement(*series_.database_, "DELETE FROM batch WHERE id <= ?").bind(1, last).run();
  transaction.commit();
  return more;
}

SeriesStore& Journal::series() {
  while (compact()) {
  }
  return series_;
}

void Journal::post(int64_t run, const PostedMetric& metric) {
  const std::lock_guard lock(series_.mutex_);
  Statement& post = statements_->post;
  post.bind(1, run).bind(2, metric.name).bind(3, metric.value).bind(4, metric.metadata);
  post.bind(5, metric.time_us).bind(6, int64_t{metric.cumulative}).run();
}

std::vector<PostedMetric> Journal::posted(int64_t run, const PostedQuery& query) const {
  const std::lock_guard lock(series_.mutex_);
  std::vector<PostedMetric> out;
  Statement rows(*series_.database_,
                 "SELECT name, value, metadata, time_us, cumulative FROM posted"
                 " WHERE run = ?1 AND (?2 = '' OR name = ?2) AND time_us >= ?3 ORDER BY name, time_us, id");
  rows.bind(1, run).bind(2, query.name).bind(3, query.from_time_us);
  while (rows.step()) {
    out.push_back({std::string(rows.text(0)), std::string(rows.text(1)), std::string(rows.text(2)), rows.integer(3),
                   rows.integer(4) != 0});
  }
  return out;
}

void Journal::remove_run(int64_t run) {
  {
    const std::lock_guard lock(series_.mutex_);
    Transaction transaction(*series_.database_);
    for (const char* sql : {"DELETE FROM batch WHERE run = ?", "DELETE FROM sequence WHERE run = ?",
                            "DELETE FROM posted WHERE run = ?"}) {
      Statement(*series_.database_, sql).bind(1, run).run();
    }
    transaction.commit();
  }
  series_.remove_run(run);
}

void Journal::flush() {
  // The log of commits; a checkpoint of SQLite syncs by itself.
  const std::string log = series_.database_->path().string() + "-wal";
  const FileDescriptor fd(::open(log.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd && fdatasync(fd.get()) != 0) throw_system_error("cannot flush " + log, errno);
}

}  // namespace mlbench::store
