#pragma once

// The frameworks of all worker programs that are built, for the tests that hold each to framework.h. Beside each other
// in a process are only those that can share one, or are loaded so that they do not meet.

#include <vector>

#include "mlbench/catalog/worker/catalog.h"

namespace mlbench::catalog {

const std::vector<FrameworkRow>& every_framework();

}  // namespace mlbench::catalog
