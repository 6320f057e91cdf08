#pragma once

// Evaluates a stored model, or the mean of several checkpoints, without a run.

#include <cstdint>
#include <filesystem>

#include "mlbench/catalog/worker/catalog.h"

namespace mlbench::worker {

// Evaluates `model` by the run specification in `spec_file`; `average` is the number of checkpoints whose mean is taken
// (train/stored_model.h). Prints one JSON object on standard output: the answer of evaluate_stored(), or {"error":
// TEXT}. Returns 0, or the exit code of the error.
int evaluate(const catalog::WorkerProgram& program, const std::filesystem::path& model, int64_t average,
             const std::filesystem::path& spec_file);

}  // namespace mlbench::worker
