#pragma once

// What a run is made of, beside its communicator: data and framework.

#include <memory>

#include "mlbench/dataset/prepared_dataset.h"
#include "mlbench/framework/framework.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::worker {

// The run's data set, ready to be read; what takes long is logged. UserError, IoError.
dataset::PreparedDataset prepare_data(const spec::RunSpec& run);

// For one rank; `local_rank` is its number on its host, which picks cores and GPU. UserError.
std::unique_ptr<framework::Framework> make_framework(const spec::RunSpec& run, int rank, int local_rank);

}  // namespace mlbench::worker
