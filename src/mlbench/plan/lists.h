#pragma once

// What can be chosen, as JSON arrays of rows: of `mlbench list`, and of a master.

#include "mlbench/base/json.h"

namespace mlbench::plan {

Json list_tasks();
Json list_executors();  // each with the options that it takes, by the names of RunRequest

}  // namespace mlbench::plan
