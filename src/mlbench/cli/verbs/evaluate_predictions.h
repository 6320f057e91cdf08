#pragma once

// The metrics of predictions that any program made for a task's evaluation set.

#include <filesystem>

#include "mlbench/base/json.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::cli {

// Holds the predictions in `file` against the task, data set, data folders and cache of `run`: {"samples", "data",
// "metrics", "weights_sha256", "step", "notes"}. A metric that predictions do not tell is null. Throws UserError for a
// task whose predictions have no form, and as read_predictions() does.
Json evaluate_predictions(const std::filesystem::path& file, const spec::RunSpec& run);

}  // namespace mlbench::cli
