#pragma once

// A stored model's metrics, without a run; or those of the mean of the last `average` checkpoints.

#include <cstdint>
#include <filesystem>

namespace mlbench::worker {

// Prints one JSON object on standard output: the answer (train/stored_model.h), or {"error": TEXT}. Returns the exit
// code that belongs to it.
int evaluate(const std::filesystem::path& model, int64_t average, const std::filesystem::path& spec_file);

}  // namespace mlbench::worker
