#pragma once

// Rows of `mlbench list`, as JSON arrays of objects.

#include "mlbench/base/json.h"

namespace mlbench::cli {

Json list_tasks();
Json list_executors();

}  // namespace mlbench::cli
