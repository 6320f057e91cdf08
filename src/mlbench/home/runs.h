#pragma once

// Run folders as command line and master make, look after and remove them.

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/base/errors.h"
#include "mlbench/base/files.h"
#include "mlbench/base/json.h"
#include "mlbench/record/record.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::home {

// UserError of a name that exists already.
class NameTaken : public UserError {
 public:
  using UserError::UserError;
};

// Held while runs come and go, are stopped before they start, and are started by the master. Finishes or removes what
// a command left behind that died while runs came or went (staging.h).
FileLock lock_runs(const std::filesystem::path& home);

// UserError naming the first of `names` that is taken, and what to type.
void check_names_free(const std::filesystem::path& home, const std::vector<std::string>& names);

// "r-2" of "r-2.3": the name of a run less the number of its repeat. NAME-K ends in a number behind a hyphen, so dots
// that NAME itself may hold are never meant.
std::string without_repeat(const std::string& run_name);

// A run that waits for the master of its home to start it: RUN/control/queue.json. It is queued, but not lost, though
// nobody owns it.
struct Waiting {
  bool no_wait = false;
};
std::optional<Waiting> read_waiting(const std::filesystem::path& run_dir);
void remove_waiting(const std::filesystem::path& run_dir);

// Gives the runs their ids (unique in the home, never given twice), folders and times of creation, and makes the
// folders HOME/runs/NAME with spec.json and run.json (queued): of all runs or of none, whatever fails or dies in the
// middle. NameTaken when a name is taken. With `waiting` the runs are for the master of the home to start. `at_step`:
// tests.
std::vector<spec::RunSpec> create_runs(const std::filesystem::path& home, std::vector<spec::RunSpec> specs,
                                       const std::optional<Waiting>& waiting = std::nullopt,
                                       const std::function<void(const char* step)>& at_step = {});
spec::RunSpec create_run(const std::filesystem::path& home, spec::RunSpec spec,
                         const std::optional<Waiting>& waiting = std::nullopt);

// The record of a run that was just made.
record::Record first_record(const spec::RunSpec& spec);

spec::RunSpec read_spec(const std::filesystem::path& run_dir);

// The record as it stands now: a run whose supervisor is gone is settled first (where nothing can be written, only in
// the answer), that of a live one is rebuilt from its spools.
record::Record current_record(const std::filesystem::path& run_dir);
// Of the run of that name, which exists, and unless it is a repeat itself of its repeats, in the order of their ids.
std::vector<record::Record> records_of_repeats(const std::filesystem::path& home, const std::string& name);

// Whether a supervisor owns the run or is about to; also for a run whose record is damaged.
bool is_active_run(const std::filesystem::path& run_dir);

// A waiting run is stopped at once; another one's supervisor is asked to. UserError when the run is not active.
void stop_run(const std::filesystem::path& home, const std::filesystem::path& run_dir);

// A waiting run is over before it began. Under lock_runs().
void fail_waiting(const std::filesystem::path& run_dir, const std::string& message);

// Removes the folder, out of sight at once; UserError when the run is active.
void delete_run(const std::filesystem::path& home, const std::filesystem::path& run_dir);

}  // namespace mlbench::home
