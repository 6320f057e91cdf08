#pragma once

// The control plane's table of implementations: one row per executor. catalog/options says which options each takes.

#include <memory>
#include <string>
#include <vector>

#include "mlbench/base/availability.h"
#include "mlbench/base/json.h"
#include "mlbench/exec/executor.h"

namespace mlbench::catalog {

struct ExecutorRow {
  const char* name;
  const char* about;  // for lists: where its ranks run, and what starts them
  Availability (*available)();
  std::unique_ptr<exec::Executor> (*make)(const Json& engine);
};
const std::vector<ExecutorRow>& executors();

// Makes the executor called `name`. Throws UserError listing the valid names, or naming an option in `engine` that this
// executor does not take, and the executors that take it.
std::unique_ptr<exec::Executor> make_executor(const std::string& name, const Json& engine = Json::object());

}  // namespace mlbench::catalog
