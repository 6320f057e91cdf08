#pragma once

// The run folders of a home (HOME/runs/NAME-K/) as a reader sees them.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/record/record.h"

namespace mlbench::report {

// Whether a folder is a run's: it holds a spec.json, of whatever state.
bool is_run(const std::filesystem::path& folder);

// Names of the folders of runs, in alphabetical order; those starting with '.' are no runs. Reads no file.
std::vector<std::string> run_names(const std::filesystem::path& home);

// These folders by run id: reads the spec of each.
std::vector<std::filesystem::path> list_runs(const std::filesystem::path& home);

// UserError with the nearest names, or how to start a run, when there is no such run.
std::filesystem::path find_run(const std::filesystem::path& home, const std::string& name);

// RUN/run.json. IoError or UserError (damaged) with the path.
record::Record read_record(const std::filesystem::path& run_dir);

// The last `count` lines of a text file, without line ends, as far as they lie in its last 4 MiB; empty when it does
// not exist.
std::vector<std::string> last_lines(const std::filesystem::path& file, size_t count);

}  // namespace mlbench::report
