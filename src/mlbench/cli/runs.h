#pragma once

// Run folders as the command line makes, looks after and removes them.

#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/base/json.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::cli {

// UserError naming the first of `names` that is taken, and what to type.
void check_names_free(const std::filesystem::path& home, const std::vector<std::string>& names);

// Gives the run its id (unique in the home, never given twice), its folder and its time of creation, and makes the
// folder HOME/runs/NAME with spec.json and run.json (queued), all of it or nothing. UserError when the name is taken.
spec::RunSpec create_run(const std::filesystem::path& home, spec::RunSpec spec);

spec::RunSpec read_spec(const std::filesystem::path& run_dir);

// The record as it stands now: a run whose supervisor is gone is settled first, that of a live one is rebuilt from its
// spools.
Json current_record(const std::filesystem::path& run_dir);

// Whether a supervisor owns the run or is about to; also for a run whose record is damaged.
bool is_active_run(const std::filesystem::path& run_dir);

// Steps of the complete checkpoints, ascending.
std::vector<int64_t> checkpoint_steps(const std::filesystem::path& run_dir);

// Removes the folder; UserError when the run is active.
void delete_run(const std::filesystem::path& home, const std::filesystem::path& run_dir);

}  // namespace mlbench::cli
