#pragma once

// The framework of the program mlbench-worker-tensorflow.

#include <vector>

#include "mlbench/catalog/worker/catalog.h"

namespace mlbench::catalog {

const std::vector<FrameworkRow>& tensorflow_frameworks();

}  // namespace mlbench::catalog
