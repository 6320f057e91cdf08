#pragma once

// How a text is evaluated.

#include <cstdint>

#include "mlbench/spec/task.h"

namespace mlbench::spec {

// Columns of the evaluated text; of each all tokens but the first are predicted, and what is left over at the end is
// not.
inline int64_t evaluation_columns(const DataSpec& data) {
  return data.evaluation_batch > 0 ? data.evaluation_batch : 10;
}

}  // namespace mlbench::spec
