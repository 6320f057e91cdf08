#pragma once

#include <filesystem>
#include <functional>

#include "mlbench/report/notes.h"

namespace mlbench::home {

// Reads the notes of a run of this home, lets `change` edit them, writes them, and returns what was written. The lock
// of the runs is held, so that no edit is lost or outlives its run. Throws UserError as report::check_notes() does, and
// when the run is gone.
report::RunNotes change_notes(const std::filesystem::path& home, const std::filesystem::path& run_dir,
                              const std::function<void(report::RunNotes&)>& change);

}  // namespace mlbench::home
