#include "mlbench/catalog/worker/every_framework_test.h"

#include "mlbench/catalog/worker/frameworks.h"

namespace mlbench::catalog {

const std::vector<FrameworkRow>& every_framework() { return frameworks(); }

}  // namespace mlbench::catalog
