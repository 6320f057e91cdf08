#pragma once

// The run folders of a home (HOME/runs/NAME-K/) as a reader sees them.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/base/json.h"

namespace mlbench::report {

// Whether a folder is a run's: it holds a spec.json, of whatever state.
bool is_run(const std::filesystem::path& folder);

// Names of the folders of runs, in alphabetical order; those starting with '.' are no runs. Reads no file.
std::vector<std::string> run_names(const std::filesystem::path& home);

// These folders by run id: reads the spec of each.
std::vector<std::filesystem::path> list_runs(const std::filesystem::path& home);

// UserError with the nearest names, or how to start a run, when there is no such run.
std::filesystem::path find_run(const std::filesystem::path& home, const std::string& name);

// UserError, naming the member, for a record whose members have other types than api/run.schema.json says, or which
// counts more ranks and segments than any run has. Members may be missing: archives of others hold less.
void check_record(const Json& record);

// RUN/run.json, checked. IoError or UserError (damaged) with the path.
Json read_record(const std::filesystem::path& run_dir);

// How many segments a run's folder may hold: those of its record, at least 1.
int64_t segment_count(const Json& record);

// The state in a record is one that a supervisor is still to change.
bool is_active(const Json& record);

// The last `count` lines of a text file, without line ends, as far as they lie in its last 4 MiB; empty when it does
// not exist.
std::vector<std::string> last_lines(const std::filesystem::path& file, size_t count);

}  // namespace mlbench::report
