#pragma once

// What an executor's folder exports: the row of the table in catalog/options.

#include <memory>

#include "mlbench/base/availability.h"
#include "mlbench/base/json.h"
#include "mlbench/exec/executor.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::exec {

struct ExecutorRow {
  const char* name;
  const char* about;  // for lists: where its ranks run, and what starts them
  ExecutorFacts facts;
  spec::RunOptionRows options;  // those that it takes
  Availability (*available)();
  // `engine` has the options of `options` alone. Throws UserError for values that the executor does not take.
  std::unique_ptr<Executor> (*make)(const Json& engine);
};

}  // namespace mlbench::exec
