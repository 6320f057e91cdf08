#include "mlbench/store/tracking.h"

#include "mlbench/base/errors.h"
#include "mlbench/store/sqlite.h"

namespace mlbench::store {

namespace {

std::optional<int64_t> row_of(Database& database, const std::string& id) {
  Statement find(database, "SELECT id FROM tracked_run WHERE uuid = ?");
  if (!find.bind(1, id).step()) return std::nullopt;
  return find.integer(0);
}

int64_t known_row(Database& database, const std::string& id) {
  const auto row = row_of(database, id);
  MLBENCH_CHECK(row.has_value(), "whoever logs has looked for the run");
  return *row;
}

std::map<std::string, std::string> pairs_of(Database& database, const char* sql, int64_t row) {
  std::map<std::string, std::string> out;
  Statement rows(database, sql);
  rows.bind(1, row);
  while (rows.step()) out[std::string(rows.text(0))] = rows.text(1);
  return out;
}

}  // namespace

Tracking::Tracking(const std::filesystem::path& store_dir)
    : database_(std::make_unique<Database>(store_dir / "journal.sqlite")) {
  database_->execute(
      "CREATE TABLE IF NOT EXISTS experiment (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, created_ms INTEGER NOT"
      "  NULL);"
      "CREATE TABLE IF NOT EXISTS experiment_tag (experiment INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,"
      "  PRIMARY KEY (experiment, key)) WITHOUT ROWID;"
      "CREATE TABLE IF NOT EXISTS tracked_run (id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE,"
      "  experiment INTEGER NOT NULL, name TEXT NOT NULL, user TEXT NOT NULL, status TEXT NOT NULL,"
      "  start_ms INTEGER NOT NULL, end_ms INTEGER);"
      "CREATE INDEX IF NOT EXISTS tracked_run_by_experiment ON tracked_run (experiment);"
      "CREATE TABLE IF NOT EXISTS tracked_metric (id INTEGER PRIMARY KEY, run INTEGER NOT NULL, key TEXT NOT NULL,"
      "  value REAL, time_ms INTEGER NOT NULL, step INTEGER NOT NULL);"
      "CREATE INDEX IF NOT EXISTS tracked_metric_by_key ON tracked_metric (run, key);"
      "CREATE TABLE IF NOT EXISTS tracked_last (run INTEGER NOT NULL, key TEXT NOT NULL, value REAL,"
      "  time_ms INTEGER NOT NULL, step INTEGER NOT NULL, PRIMARY KEY (run, key)) WITHOUT ROWID;"
      "CREATE TABLE IF NOT EXISTS tracked_param (run INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,"
      "  PRIMARY KEY (run, key)) WITHOUT ROWID;"
      "CREATE TABLE IF NOT EXISTS tracked_tag (run INTEGER NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,"
      "  PRIMARY KEY (run, key)) WITHOUT ROWID;"
      "INSERT OR IGNORE INTO experiment (id, name, created_ms) VALUES (0, 'Default', 0);");
}

Tracking::~Tracking() = default;

std::optional<int64_t> Tracking::create_experiment(const Experiment& experiment) {
  const std::lock_guard lock(mutex_);
  Transaction transaction(*database_);
  Statement insert(*database_, "INSERT OR IGNORE INTO experiment (name, created_ms) VALUES (?,?)");
  insert.bind(1, experiment.name).bind(2, experiment.created_ms).run();
  if (database_->changes() == 0) return std::nullopt;
  const int64_t id = database_->last_row_id();
  Statement tag(*database_, "INSERT INTO experiment_tag VALUES (?,?,?)");
  for (const auto& [key, value] : experiment.tags) tag.bind(1, id).bind(2, key).bind(3, value).run();
  transaction.commit();
  return id;
}

std::optional<Experiment> Tracking::find_experiment(const char* where, int64_t id, const std::string& name) const {
  const std::lock_guard lock(mutex_);
  Statement find(*database_, std::string("SELECT id, name, created_ms FROM experiment WHERE ") + where);
  if (!find.bind(1, id).bind(2, name).step()) return std::nullopt;
  Experiment out{find.integer(0), std::string(find.text(1)), {}, find.integer(2)};
  out.tags = pairs_of(*database_, "SELECT key, value FROM experiment_tag WHERE experiment = ?", out.id);
  return out;
}

std::optional<Experiment> Tracking::experiment(int64_t id) const {
  return find_experiment("id = ?1 AND ?2 = ''", id, "");
}

std::optional<Experiment> Tracking::experiment(const std::string& name) const {
  return find_experiment("name = ?2 AND ?1 = 0", 0, name);
}

std::vector<Experiment> Tracking::experiments() const {
  std::vector<int64_t> ids;
  {
    const std::lock_guard lock(mutex_);
    Statement rows(*database_, "SELECT id FROM experiment ORDER BY id");
    while (rows.step()) ids.push_back(rows.integer(0));
  }
  std::vector<Experiment> out;
  for (const int64_t id : ids) {
    if (auto found = experiment(id)) out.push_back(std::move(*found));
  }
  return out;
}

void Tracking::create_run(const TrackedRun& run) {
  const std::lock_guard lock(mutex_);
  Transaction transaction(*database_);
  Statement insert(*database_,
                   "INSERT INTO tracked_run (uuid, experiment, name, user, status, start_ms) VALUES (?,?,?,?,?,?)");
  insert.bind(1, run.id).bind(2, run.experiment).bind(3, run.name).bind(4, run.user).bind(5, run.status);
  insert.bind(6, run.start_ms).run();
  const int64_t row = database_->last_row_id();
  Statement tag(*database_, "INSERT INTO tracked_tag VALUES (?,?,?)");
  for (const auto& [key, value] : run.tags) tag.bind(1, row).bind(2, key).bind(3, value).run();
  transaction.commit();
}

TrackedRun Tracking::whole_run(int64_t row) const {
  TrackedRun out;
  Statement run(*database_,
                "SELECT uuid, experiment, name, user, status, start_ms, end_ms FROM tracked_run WHERE id = ?");
  MLBENCH_CHECK(run.bind(1, row).step(), "the row was found a moment ago");
  out.id = run.text(0);
  out.experiment = run.integer(1);
  out.name = run.text(2);
  out.user = run.text(3);
  out.status = run.text(4);
  out.start_ms = run.integer(5);
  if (!run.is_null(6)) out.end_ms = run.integer(6);
  Statement metrics(*database_, "SELECT key, value, time_ms, step FROM tracked_last WHERE run = ?");
  metrics.bind(1, row);
  while (metrics.step()) {
    const std::string key(metrics.text(0));
    out.metrics[key] = {key, metrics.real(1), metrics.integer(2), metrics.integer(3)};
  }
  out.params = pairs_of(*database_, "SELECT key, value FROM tracked_param WHERE run = ?", row);
  out.tags = pairs_of(*database_, "SELECT key, value FROM tracked_tag WHERE run = ?", row);
  return out;
}

std::optional<TrackedRun> Tracking::run(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto row = row_of(*database_, id);
  if (!row) return std::nullopt;
  return whole_run(*row);
}

std::vector<TrackedRun> Tracking::runs(const std::vector<int64_t>& experiments) const {
  const std::lock_guard lock(mutex_);
  std::vector<TrackedRun> out;
  Statement rows(*database_, "SELECT id FROM tracked_run WHERE experiment = ? ORDER BY id DESC");
  for (const int64_t experiment : experiments) {
    rows.reset();
    rows.bind(1, experiment);
    while (rows.step()) out.push_back(whole_run(rows.integer(0)));
  }
  return out;
}

std::vector<TrackedRun> Tracking::heads() const {
  const std::lock_guard lock(mutex_);
  Statement rows(*database_,
                 "SELECT uuid, experiment, name, user, status, start_ms, end_ms FROM tracked_run ORDER BY id DESC");
  std::vector<TrackedRun> out;
  while (rows.step()) {
    TrackedRun run;
    run.id = rows.text(0);
    run.experiment = rows.integer(1);
    run.name = rows.text(2);
    run.user = rows.text(3);
    run.status = rows.text(4);
    run.start_ms = rows.integer(5);
    if (!rows.is_null(6)) run.end_ms = rows.integer(6);
    out.push_back(std::move(run));
  }
  return out;
}

void Tracking::update_run(const std::string& id, const std::string& status, std::optional<int64_t> end_ms,
                          const std::string& name) {
  const std::lock_guard lock(mutex_);
  Statement update(*database_,
                   "UPDATE tracked_run SET status = CASE ?2 WHEN '' THEN status ELSE ?2 END,"
                   " end_ms = COALESCE(?3, end_ms), name = CASE ?4 WHEN '' THEN name ELSE ?4 END WHERE id = ?1");
  update.bind(1, known_row(*database_, id)).bind(2, status).bind(4, name);
  if (end_ms) {
    update.bind(3, *end_ms);
  } else {
    update.bind_null(3);
  }
  update.run();
}

void Tracking::log(const std::string& id, const TrackedBatch& batch) {
  const std::lock_guard lock(mutex_);
  Transaction transaction(*database_);
  const int64_t row = known_row(*database_, id);
  Statement metric(*database_, "INSERT INTO tracked_metric (run, key, value, time_ms, step) VALUES (?,?,?,?,?)");
  Statement last(*database_,
                 "INSERT INTO tracked_last (run, key, value, time_ms, step) VALUES (?1,?2,?3,?4,?5)"
                 " ON CONFLICT (run, key) DO UPDATE SET value = ?3, time_ms = ?4, step = ?5"
                 " WHERE ?5 > step OR (?5 = step AND (?4 > time_ms OR (?4 = time_ms AND ?3 >= value)))");
  for (const TrackedMetric& one : batch.metrics) {
    for (Statement* statement : {&metric, &last}) {
      statement->bind(1, row).bind(2, one.key).bind(3, one.value).bind(4, one.time_ms).bind(5, one.step).run();
    }
  }
  Statement known(*database_, "SELECT value FROM tracked_param WHERE run = ? AND key = ?");
  Statement param(*database_, "INSERT OR IGNORE INTO tracked_param VALUES (?,?,?)");
  for (const auto& [key, value] : batch.params) {
    if (known.bind(1, row).bind(2, key).step() && known.text(0) != value) {
      throw UserError("the parameter '" + key.substr(0, 100) + "' has the value '" +
                      std::string(known.text(0)).substr(0, 100) + "' already: a parameter never changes");
    }
    known.reset();
    param.bind(1, row).bind(2, key).bind(3, value).run();
  }
  Statement tag(*database_, "INSERT OR REPLACE INTO tracked_tag VALUES (?,?,?)");
  for (const auto& [key, value] : batch.tags) tag.bind(1, row).bind(2, key).bind(3, value).run();
  transaction.commit();
}

std::vector<TrackedMetric> Tracking::history(const std::string& id, const std::string& key, int64_t offset,
                                             int64_t count) const {
  const std::lock_guard lock(mutex_);
  std::vector<TrackedMetric> out;
  Statement rows(
      *database_,
      "SELECT value, time_ms, step FROM tracked_metric WHERE run = ? AND key = ? ORDER BY id LIMIT ? OFFSET ?");
  rows.bind(1, known_row(*database_, id)).bind(2, key).bind(3, count).bind(4, offset);
  while (rows.step()) out.push_back({key, rows.real(0), rows.integer(1), rows.integer(2)});
  return out;
}

}  // namespace mlbench::store
