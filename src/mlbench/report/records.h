#pragma once

// The run folders of a home (HOME/runs/NAME-K/) as a reader sees them.

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "mlbench/record/record.h"

namespace mlbench::report {

// Whether `folder` is a run's: it holds a spec.json, whatever is in that file.
bool is_run(const std::filesystem::path& folder);

// The names of the folders of runs, in alphabetical order. Names that begin with '.' are no runs. Reads no file.
std::vector<std::string> run_names(const std::filesystem::path& home);

// The folders of runs, ordered by run id. Reads the spec of each; a run whose spec is damaged has id 0.
std::vector<std::filesystem::path> list_runs(const std::filesystem::path& home);

// The folder of the run `name`. Throws UserError, with the nearest names or how to start a run, if there is none.
std::filesystem::path find_run(const std::filesystem::path& home, const std::string& name);

// Reads RUN/run.json. Throws IoError where it cannot be read and UserError where it is damaged, both with its path.
record::Record read_record(const std::filesystem::path& run_dir);

// The last `count` lines of a text file, without line ends, as far as they lie in its last 4 MiB. Empty when the file
// does not exist.
std::vector<std::string> last_lines(const std::filesystem::path& file, size_t count);

}  // namespace mlbench::report
