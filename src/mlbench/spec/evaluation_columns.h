#pragma once

// How a text is evaluated.

#include <cstdint>

#include "mlbench/spec/task.h"

namespace mlbench::spec {

// The number of columns in which a text is evaluated. All tokens of a column but the first are predicted; tokens at the
// text's end that fill no row of all columns are left out.
inline int64_t evaluation_columns(const DataSpec& data) {
  return data.evaluation_batch > 0 ? data.evaluation_batch : 10;
}

}  // namespace mlbench::spec
