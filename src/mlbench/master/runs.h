#pragma once

// Run folders as command line and master make, look after and remove them.

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::master {

// UserError of a name that exists already.
class NameTaken : public UserError {
 public:
  using UserError::UserError;
};

// Held while runs are made, deleted, stopped before they start, and started by the master.
FileLock lock_runs(const std::filesystem::path& home);

// UserError naming the first of `names` that is taken, and what to type.
void check_names_free(const std::filesystem::path& home, const std::vector<std::string>& names);

// A run that waits for the master of its home to start it: RUN/control/queue.json. It is queued, but not lost, though
// nobody owns it.
struct Waiting {
  bool no_wait = false;
};
std::optional<Waiting> read_waiting(const std::filesystem::path& run_dir);
void remove_waiting(const std::filesystem::path& run_dir);

// Gives the run its id (unique in the home, never given twice), its folder and its time of creation, and makes the
// folder HOME/runs/NAME with spec.json and run.json (queued), all of it or nothing. NameTaken when the name is taken.
// With `waiting` the run is for the master of the home to start.
spec::RunSpec create_run(const std::filesystem::path& home, spec::RunSpec spec,
                         const std::optional<Waiting>& waiting = std::nullopt);

spec::RunSpec read_spec(const std::filesystem::path& run_dir);

// The record as it stands now: a run whose supervisor is gone is settled first (where nothing can be written, only in
// the answer), that of a live one is rebuilt from its spools.
Json current_record(const std::filesystem::path& run_dir);

// Whether a supervisor owns the run or is about to; also for a run whose record is damaged.
bool is_active_run(const std::filesystem::path& run_dir);

// Steps of the complete checkpoints, ascending.
std::vector<int64_t> checkpoint_steps(const std::filesystem::path& run_dir);

// A waiting run is stopped at once; another one's supervisor is asked to. UserError when the run is not active.
void stop_run(const std::filesystem::path& home, const std::filesystem::path& run_dir);

// A waiting run is over before it began. Under lock_runs().
void fail_waiting(const std::filesystem::path& run_dir, const std::string& message);

// Removes the folder; UserError when the run is active.
void delete_run(const std::filesystem::path& home, const std::filesystem::path& run_dir);

}  // namespace mlbench::master
