#pragma once

// The frameworks that share a process: those of the program mlbench-worker. A framework that cannot share one has a
// list and a program of its own.

#include <vector>

#include "mlbench/catalog/worker/catalog.h"

namespace mlbench::catalog {

const std::vector<FrameworkRow>& frameworks();

}  // namespace mlbench::catalog
