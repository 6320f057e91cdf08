#pragma once

// Experiments and runs of clients that speak MLflow's tracking protocol, in HOME/store/journal.sqlite, since nobody
// could send them again. Such runs are apart from the runs of this home, which have folders.

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mlbench::store {

class Database;

struct Experiment {
  int64_t id = 0;
  std::string name;
  std::map<std::string, std::string> tags;
  int64_t created_ms = 0;
};

struct TrackedMetric {
  std::string key;
  double value = 0;  // may be NaN or infinite
  int64_t time_ms = 0;
  int64_t step = 0;
};

struct TrackedRun {
  std::string id;  // 32 hexadecimal digits
  int64_t experiment = 0;
  std::string name, user, status = "RUNNING";
  int64_t start_ms = 0;
  std::optional<int64_t> end_ms;
  std::map<std::string, TrackedMetric> metrics;  // the last one of each key: by step, then time, then value
  std::map<std::string, std::string> params, tags;
};

struct TrackedBatch {
  std::vector<TrackedMetric> metrics;
  std::map<std::string, std::string> params, tags;
};

// Thread-safe. When a call returns, the kernel has its data (journal.h).
class Tracking {
 public:
  // Experiment 0, "Default", always exists.
  explicit Tracking(const std::filesystem::path& store_dir);
  ~Tracking();

  // Empty when the name is taken.
  std::optional<int64_t> create_experiment(const Experiment& experiment);
  std::optional<Experiment> experiment(int64_t id) const;
  std::optional<Experiment> experiment(const std::string& name) const;
  std::vector<Experiment> experiments() const;  // by id

  void create_run(const TrackedRun& run);
  std::optional<TrackedRun> run(const std::string& id) const;
  std::vector<TrackedRun> runs(const std::vector<int64_t>& experiments) const;  // newest first
  std::vector<TrackedRun> heads() const;  // all runs, without metrics, parameters and tags; newest first
  void update_run(const std::string& id, const std::string& status, std::optional<int64_t> end_ms,
                  const std::string& name);  // empty `end_ms` and "" change nothing
  // Logs all of the batch or nothing. Throws UserError for a parameter that already has another value.
  void log(const std::string& id, const TrackedBatch& batch);
  // The values in the order in which they came, `count` of them from `offset` on.
  std::vector<TrackedMetric> history(const std::string& id, const std::string& key, int64_t offset,
                                     int64_t count) const;

 private:
  std::optional<Experiment> find_experiment(const char* where, int64_t id, const std::string& name) const;
  TrackedRun whole_run(int64_t row) const;

  mutable std::mutex mutex_;
  std::unique_ptr<Database> database_;
};

}  // namespace mlbench::store
