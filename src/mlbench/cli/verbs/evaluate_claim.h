#pragma once

// Whether the predictions of a custom run give what its script claimed: `mlbench evaluate NAME-K`.

#include <filesystem>

#include "mlbench/base/errors.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::cli {

struct Context;

// Computes the metrics of the task that the run's command declares from RUN/predictions.jsonl, and compares them with
// those that the script recorded: at the evaluation that reached the goal, else at the last. kRunFailed where one
// differs. `given` has the data folder. Throws UserError for a run that declares no task or is not over, for missing
// predictions, and for those that do not tell the goal's metric.
ExitCode evaluate_claim(const Context& context, const std::filesystem::path& run_dir, const spec::RunOptions& given);

}  // namespace mlbench::cli
