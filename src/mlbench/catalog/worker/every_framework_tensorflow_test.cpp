#include "mlbench/catalog/worker/every_framework_test.h"
#include "mlbench/catalog/worker/frameworks.h"
#include "mlbench/catalog/worker/tensorflow.h"

namespace mlbench::catalog {

const std::vector<FrameworkRow>& every_framework() {
  static const std::vector<FrameworkRow> kRows = [] {
    std::vector<FrameworkRow> rows = frameworks();
    rows.insert(rows.end(), tensorflow_frameworks().begin(), tensorflow_frameworks().end());
    return rows;
  }();
  return kRows;
}

}  // namespace mlbench::catalog
