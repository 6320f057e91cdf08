#include "mlbench/store/run_index.h"

#include <system_error>

#include "mlbench/base/system_error.h"
#include "mlbench/store/sqlite.h"

namespace mlbench::store {

namespace fs = std::filesystem;

namespace {

constexpr int64_t kIndexVersion = 3;

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
          "  task TEXT NOT NULL, stamp INTEGER NOT NULL, summary TEXT NOT NULL, words TEXT NOT NULL,"
          "  workers TEXT NOT NULL, executor TEXT NOT NULL, configuration TEXT NOT NULL, labels TEXT NOT NULL,"
          "  tags TEXT NOT NULL) WITHOUT ROWID;"
          // A list reads this index alone, and no wide row.
          "CREATE INDEX IF NOT EXISTS runs_by_id ON"
          "  runs (id, name, state, task, workers, executor, configuration, labels, tags);"
          "CREATE INDEX IF NOT EXISTS runs_by_state ON runs (state, id);"
          "CREATE TABLE IF NOT EXISTS figures (key TEXT NOT NULL, name TEXT NOT NULL, value NOT NULL,"
          "  PRIMARY KEY (key, name)) WITHOUT ROWID;"
          "CREATE INDEX IF NOT EXISTS figures_by_name ON figures (name);"
          "PRAGMA user_version = 3;");
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

std::string lines_of(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) out += text + "\n";
  return out;
}

std::vector<std::string> texts_of_lines(std::string_view lines) {
  std::vector<std::string> texts;
  for (size_t end = lines.find('\n'); end != std::string_view::npos; end = lines.find('\n')) {
    texts.emplace_back(lines.substr(0, end));
    lines.remove_prefix(end + 1);
  }
  return texts;
}

void put_figures(Database& database, const IndexedRun& run) {
  Statement insert(database, "INSERT INTO figures (key, name, value) VALUES (?,?,?)");
  for (const auto& [key, value] : run.figures) {
    insert.bind(1, key).bind(2, run.name);
    if (const double* number = std::get_if<double>(&value)) {
      insert.bind(3, *number).run();
    } else if (const std::string* text = std::get_if<std::string>(&value)) {
      insert.bind(3, *text).run();
    }
  }
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
  Statement insert(
      *database_,
      "INSERT INTO runs (name, id, state, task, stamp, summary, words, workers, executor, labels, tags,"
      " configuration) VALUES (?,?,?,?,?,?,?,?,?,?,?,'') ON CONFLICT (name) DO UPDATE SET id = excluded.id,"
      " state = excluded.state, task = excluded.task, stamp = excluded.stamp,"
      " summary = excluded.summary, words = excluded.words, workers = excluded.workers,"
      " executor = excluded.executor, labels = excluded.labels, tags = excluded.tags");
  Statement forget(*database_, "DELETE FROM figures WHERE name = ?");
  for (const IndexedRun& run : runs) {
    insert.bind(1, run.name).bind(2, run.id).bind(3, run.state).bind(4, run.task).bind(5, run.stamp);
    insert.bind(6, run.summary).bind(7, run.words).bind(8, run.workers).bind(9, run.executor);
    insert.bind(10, lines_of(run.labels)).bind(11, lines_of(run.tags)).run();
    forget.bind(1, run.name).run();
    put_figures(*database_, run);
  }
  transaction.commit();
}

void RunIndex::remove(const std::vector<std::string>& names) {
  if (names.empty()) return;
  const std::lock_guard lock(mutex_);
  Transaction transaction(*database_);
  for (const char* table : {"runs", "figures"}) {
    Statement remove(*database_, std::string("DELETE FROM ") + table + " WHERE name = ?");
    for (const std::string& name : names) remove.bind(1, name).run();
  }
  transaction.commit();
}

void RunIndex::set_configurations(const std::map<std::string, std::string>& configurations) {
  if (configurations.empty()) return;
  const std::lock_guard lock(mutex_);
  Transaction transaction(*database_);
  Statement update(*database_, "UPDATE runs SET configuration = ?2 WHERE name = ?1");
  for (const auto& [name, configuration] : configurations) update.bind(1, name).bind(2, configuration).run();
  transaction.commit();
}

std::vector<ListedRun> RunIndex::list() const {
  const std::lock_guard lock(mutex_);
  Statement rows(*database_,
                 "SELECT id, name, state, task, workers, executor, configuration, labels, tags FROM runs"
                 " ORDER BY id DESC, name DESC");
  std::vector<ListedRun> runs;
  while (rows.step()) {
    const auto text = [&](int column) { return std::string(rows.text(column)); };
    runs.push_back({rows.integer(0), text(1), text(2), text(3), text(4), text(5), text(6), texts_of_lines(rows.text(7)),
                    texts_of_lines(rows.text(8))});
  }
  return runs;
}

std::vector<std::string> RunIndex::newest_summaries(int64_t most, const std::string& state) const {
  const std::lock_guard lock(mutex_);
  const std::string where = state.empty() ? "?2 = ''" : "state = ?2";
  // Names come from an index; wide rows are read only for the page.
  Statement rows(*database_, "SELECT summary FROM runs JOIN (SELECT name AS n, id AS i FROM runs WHERE " + where +
                                 " ORDER BY id DESC, name LIMIT ?1) ON name = n ORDER BY i DESC, n");
  rows.bind(1, most).bind(2, state);
  std::vector<std::string> summaries;
  while (rows.step()) summaries.emplace_back(rows.text(0));
  return summaries;
}

std::vector<std::string> RunIndex::summaries(const std::vector<std::string>& names) const {
  const std::lock_guard lock(mutex_);
  Statement row(*database_, "SELECT summary FROM runs WHERE name = ?");
  std::vector<std::string> summaries;
  for (const std::string& name : names) {
    if (row.bind(1, name).step()) summaries.emplace_back(row.text(0));
    row.reset();
  }
  return summaries;
}

std::unordered_map<std::string, FigureValue> RunIndex::figure(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  Statement rows(*database_, "SELECT name, typeof(value) = 'text', value FROM figures WHERE key = ?");
  rows.bind(1, key);
  std::unordered_map<std::string, FigureValue> values;
  while (rows.step()) {
    values.emplace(rows.text(0), rows.integer(1) != 0 ? FigureValue(std::string(rows.text(2))) : rows.real(2));
  }
  return values;
}

std::unordered_set<std::string> RunIndex::search(const std::vector<std::string>& parts) const {
  const std::lock_guard lock(mutex_);
  std::string where;
  for (size_t i = 1; i <= parts.size(); ++i) {
    const std::string pattern = "LIKE ?" + std::to_string(i) + " ESCAPE '\\'";
    where += (i == 1 ? " WHERE (name " : " AND (name ") + pattern + " OR words " + pattern + ")";
  }
  Statement rows(*database_, "SELECT name FROM runs" + where);
  for (size_t i = 0; i < parts.size(); ++i) rows.bind(static_cast<int>(i + 1), like_pattern(parts[i]));
  std::unordered_set<std::string> names;
  while (rows.step()) names.emplace(rows.text(0));
  return names;
}

std::vector<std::string> RunIndex::names_below(const std::string& name) const {
  const std::lock_guard lock(mutex_);
  // '/' comes behind '.', and no name has it.
  Statement rows(*database_, "SELECT name FROM runs WHERE name = ?1 OR (name > ?2 AND name < ?3) ORDER BY id, name");
  rows.bind(1, name).bind(2, name + ".").bind(3, name + "/");
  std::vector<std::string> names;
  while (rows.step()) names.emplace_back(rows.text(0));
  return names;
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
