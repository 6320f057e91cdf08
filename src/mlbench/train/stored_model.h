#pragma once

// Metrics of a stored model over its task's evaluation split, in one process.

#include <filesystem>
#include <functional>

#include "mlbench/base/json.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/framework/framework.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::train {

// `model` is a checkpoint folder, of which the mean with the `average` - 1 checkpoints before it is taken, or a
// safetensors file that holds the model's tensors by their neutral names (of a checkpoint: the averaged buffers).
// `run` says task, data, threads and the number of ranks whose sums are to be repeated. The data are prepared after
// the model was read.
//   {"samples", "data": {..}, "metrics": {..}, "weights_sha256", "step": n|null, "trained_for": task hash|null,
//    "averaged": their steps (null where `average` is 1),
//    "unused": names of the file's tensors that the model lacks (null for a checkpoint)}
// UserError: no such model, damaged, or of another shape. IoError.
Json evaluate_stored(const std::filesystem::path& model, int64_t average, const spec::RunSpec& run,
                     framework::Framework& framework, const std::function<dataset::PreparedDataset()>& prepare);

}  // namespace mlbench::train
