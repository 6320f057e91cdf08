#pragma once

// Makes, looks at, stops and removes run folders, for the command line and the master.

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

// The name exists already.
class NameTaken : public UserError {
 public:
  using UserError::UserError;
};

// Takes the lock that is held while runs are made or removed, stopped before they start, and started by the master.
// Under the lock, the function finishes or removes what a command left that died while it made or removed runs
// (staging.h).
FileLock lock_runs(const std::filesystem::path& home);

// The name that the run `name` gets once another run takes its name: NAME.failed, NAME.failed.2, ... Only a run whose
// start failed before any rank ran makes room so; empty for others, and where there is no such run.
std::optional<std::string> name_of_failed_start(const std::filesystem::path& home, const std::string& name);

// Whether no new run can have the name.
bool is_taken(const std::filesystem::path& home, const std::string& name);

// Throws UserError naming the first of `names` that is taken, and what to type instead.
void check_names_free(const std::filesystem::path& home, const std::vector<std::string>& names);

// The name of a run without the number of its repeat: "r-2" of "r-2.3". NAME-K ends in a hyphen and a number, so dots
// that NAME itself has are never meant.
std::string without_repeat(const std::string& run_name);

// A run that waits for the home's master (RUN/control/queue.json). It is queued and not lost, though nobody owns it.
struct Waiting {
  bool no_wait = false;
};
std::optional<Waiting> read_waiting(const std::filesystem::path& run_dir);
void remove_waiting(const std::filesystem::path& run_dir);

// Gives the runs their ids (unique in the home, never given twice), folders and times of creation, and makes the
// folders HOME/runs/NAME with spec.json and run.json (queued): for all runs or for none, whatever fails or dies in
// between. Throws NameTaken when a name is taken; a run whose start failed makes room (name_of_failed_start). With
// `waiting`, the home's master is to start the runs. `at_step` is for tests.
std::vector<spec::RunSpec> create_runs(const std::filesystem::path& home, std::vector<spec::RunSpec> specs,
                                       const std::optional<Waiting>& waiting = std::nullopt,
                                       const std::function<void(const char* step)>& at_step = {});
spec::RunSpec create_run(const std::filesystem::path& home, spec::RunSpec spec,
                         const std::optional<Waiting>& waiting = std::nullopt);

// The record of a run that was just made.
record::Record first_record(const spec::RunSpec& spec);

spec::RunSpec read_spec(const std::filesystem::path& run_dir);

// The record as it is now. A run whose supervisor is gone is settled first (where nothing can be written, only in the
// returned record). The record of a live run is built again from its spools; the run is over once its file says so.
record::Record current_record(const std::filesystem::path& run_dir);
// The records of the run of that name, which must exist, and, unless it is itself a repeat, of its repeats, in the
// order of their ids.
std::vector<record::Record> records_of_repeats(const std::filesystem::path& home, const std::string& name);

// Whether a supervisor owns the run or is about to. The run's record may be damaged.
bool is_active_run(const std::filesystem::path& run_dir);

// Stops a waiting run at once; asks any other run's supervisor to stop. Throws UserError when the run is not active.
void stop_run(const std::filesystem::path& home, const std::filesystem::path& run_dir);

// Ends a waiting run before it began. Precondition: the caller holds lock_runs().
void fail_waiting(const std::filesystem::path& run_dir, const std::string& message);

// Removes the folder, which is out of sight at once. Throws UserError when the run is active.
void delete_run(const std::filesystem::path& home, const std::filesystem::path& run_dir);

}  // namespace mlbench::home
