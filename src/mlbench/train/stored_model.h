#pragma once

// Computes the metrics of a stored model over its task's evaluation split, in one process.

#include <filesystem>
#include <functional>

#include "mlbench/base/json.h"
#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/framework/framework.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::train {

// `model` is a checkpoint folder, or a safetensors file that holds the model's tensors by their neutral names (in a
// checkpoint, those are the averaged buffers). With `average` above 1, the mean of the checkpoint and the `average` - 1
// checkpoints before it is evaluated. `run` says task, data, threads and the number of ranks whose sums are to be
// repeated. `prepare` is called after the model was read. Returns
//   {"samples", "data": {..}, "metrics": {..}, "weights_sha256", "step": n|null, "trained_for": task hash|null,
//    "averaged": steps of the averaged checkpoints (null where `average` is 1),
//    "unused": names of the file's tensors that the model lacks (null for a checkpoint)}
// Throws UserError where there is no such model, or it is damaged or has another shape, and IoError where reading
// fails.
Json evaluate_stored(const std::filesystem::path& model, int64_t average, const spec::RunSpec& run,
                     framework::Framework& framework, const std::function<dataset::PreparedDataset()>& prepare);

}  // namespace mlbench::train
