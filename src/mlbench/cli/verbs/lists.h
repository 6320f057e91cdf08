#pragma once

// Rows of `mlbench list`, as JSON arrays of objects.

#include "mlbench/base/json.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::cli {

Json list_tasks();
Json list_executors();  // each with the options of its engine that it takes, by the names of RunRequest
// What tasks train, as it is built: of the task that the options name, with its overrides; of all official tasks and
// variants where they name none. UserError as plan_frozen_task(), and for a model that cannot be built.
Json list_models(const spec::RunOptions& options);

}  // namespace mlbench::cli
