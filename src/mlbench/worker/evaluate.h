#pragma once

// A stored model's metrics, without a run.

#include <filesystem>

namespace mlbench::worker {

// Prints one JSON object on standard output: the answer (train/stored_model.h), or {"error": TEXT}. Returns the exit
// code that belongs to it.
int evaluate(const std::filesystem::path& model, const std::filesystem::path& spec_file);

}  // namespace mlbench::worker
