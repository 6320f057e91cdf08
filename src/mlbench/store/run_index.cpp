#include "mlbench/store/run_index.h"

#include <system_error>

#include "mlbench/base/system_error.h"
#include "mlbench/store/sqlite.h"

namespace mlbench::store {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kIndexVersion = 2;

int64_t version_of(Database& database) {
  Statement statement(database, "PRAGMA user_version");
  statement.step();
  return statement.integer(0);
}

std::unique_ptr<Database> open_or_replace(const fs::path& path) {
  try {
    auto database = std::make_unique<Database>(path);
    const int64_t version = version_of(*database);
    if (version == kIndexVersion) return database;
    if (version == 0) {
      database->execute(
          "CREATE TABLE IF NOT EXISTS runs (name TEXT PRIMARY KEY, id INTEGER NOT NULL, state TEXT NOT NULL,"
          "  task TEXT NOT NULL, stamp INTEGER NOT NULL, summary TEXT NOT NULL, words TEXT NOT NULL) WITHOUT ROWID;"
          "CREATE INDEX IF NOT EXISTS runs_by_id ON runs (id, name, state, task);"
          "CREATE INDEX IF NOT EXISTS runs_by_state ON runs (state);"
          "PRAGMA user_version = 2;");
      return database;
    }
  } catch (const IoError& error) {
    if (is_transient(error) || !fs::exists(path)) throw;  // the file is not damaged
  }
  for (const char* suffix : {"", "-wal", "-shm"}) {
    std::error_code ignored;
    fs::remove(path.string() + suffix, ignored);
  }
  auto database = std::make_unique<Database>(path);
  return version_of(*database) == 0 ? open_or_replace(path) : std::move(database);
}

// A LIKE pattern in which the text's wildcards are literal.
std::string like_pattern(const std::string& text) {
  std::string out = "%";
  for (const char c : text) {
    if (c == '%' || c == '_' || c == '\\') out += '\\';
    out += c;
  }
  return out + "%";
}

// The condition of a query. Without a search, it needs only the index on ids, and no wide row is read.
std::string where(const RunQuery& query) {
  const std::string all = " FROM runs WHERE (?1 = '' OR state = ?1) AND (?2 = '' OR task = ?2) AND ";
  return all + (query.search.empty() ? "?3 = '%%'" : "(name LIKE ?3 ESCAPE '\\' OR words LIKE ?3 ESCAPE '\\')");
}

}  // namespace

RunIndex::RunIndex(const fs::path& store_dir) {
  std::error_code error;
  fs::create_directories(store_dir, error);
  if (error) throw IoError("cannot create " + store_dir.string() + ": " + error.message());
  database_ = open_or_replace(store_dir / "index.sqlite");
}

RunIndex::~RunIndex() = default;

void RunIndex::put(const std::vector<IndexedRun>& runs) {
  if (runs.empty()) return;
  const std::lock_guard lock(mutex_);
  Transaction transaction(*database_);
  Statement insert(*database_,
                   "INSERT OR REPLACE INTO runs (name, id, state, task, stamp, summary, words) VALUES (?,?,?,?,?,?,?)");
  for (const IndexedRun& run : runs) {
    insert.bind(1, run.name)
        .bind(2, run.id)
        .bind(3, run.state)
        .bind(4, run.task)
        .bind(5, run.stamp)
        .bind(6, run.summary)
        .bind(7, run.words);
    insert.run();
  }
  transaction.commit();
}

void RunIndex::remove(const std::vector<std::string>& names) {
  if (names.empty()) return;
  const std::lock_guard lock(mutex_);
  Transaction transaction(*database_);
  Statement remove(*database_, "DELETE FROM runs WHERE name = ?");
  for (const std::string& name : names) remove.bind(1, name).run();
  transaction.commit();
}

RunPage RunIndex::find(const RunQuery& query) const {
  const std::lock_guard lock(mutex_);
  const auto bind = [&](Statement& statement) {
    statement.bind(1, query.state).bind(2, query.task).bind(3, like_pattern(query.search));
  };
  RunPage page;
  Statement count(*database_, "SELECT count(*)" + where(query));
  bind(count);
  count.step();
  page.total = count.integer(0);
  // Names come from the index on ids alone; wide rows are read only for the page.
  const std::string order = query.newest_first ? "DESC" : "ASC";
  Statement rows(*database_, "SELECT summary FROM runs JOIN (SELECT name AS n, id AS i" + where(query) +
                                 " ORDER BY id " + order + ", name LIMIT ?4 OFFSET ?5) ON name = n ORDER BY i " +
                                 order + ", n");
  bind(rows);
  rows.bind(4, query.limit).bind(5, query.offset);
  while (rows.step()) page.summaries.emplace_back(rows.text(0));
  return page;
}

std::optional<std::string> RunIndex::name_of(int64_t id) const {
  const std::lock_guard lock(mutex_);
  Statement statement(*database_, "SELECT name FROM runs WHERE id = ? ORDER BY name");
  statement.bind(1, id);
  if (!statement.step()) return std::nullopt;
  return std::string(statement.text(0));
}

std::optional<int64_t> RunIndex::id_of(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  Statement statement(*database_, "SELECT id FROM runs WHERE name = ?");
  if (!statement.bind(1, name).step()) return std::nullopt;
  return statement.integer(0);
}

std::map<std::string, int64_t> RunIndex::stamps() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, int64_t> out;
  Statement statement(*database_, "SELECT name, stamp FROM runs");
  while (statement.step()) out.emplace(statement.text(0), statement.integer(1));
  return out;
}

std::vector<std::string> RunIndex::names_in_state(const std::string& state) const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  Statement statement(*database_, "SELECT name FROM runs WHERE state = ? ORDER BY id");
  statement.bind(1, state);
  while (statement.step()) out.emplace_back(statement.text(0));
  return out;
}

std::map<std::string, int64_t> RunIndex::count_by_state() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, int64_t> out;
  Statement statement(*database_, "SELECT state, count(*) FROM runs GROUP BY state");
  while (statement.step()) out.emplace(statement.text(0), statement.integer(1));
  return out;
}

}  // namespace mlbench::store
