#pragma once

// The runs of MLflow's clients (store/tracking.h), as lists of runs have them.

#include <string>
#include <vector>

#include "mlbench/store/run_index.h"
#include "mlbench/store/tracking.h"

namespace mlbench::master {

// All of them, the newest first. A name is "mlflow:" with the run's id, which no run of a home has; the name that the
// client gave is the title.
std::vector<store::IndexedRun> tracked_runs(const store::Tracking& tracking);

}  // namespace mlbench::master
