#pragma once

// The control plane's table of implementations: one row per executor.

#include <memory>
#include <string>
#include <vector>

#include "mlbench/base/availability.h"
#include "mlbench/exec/executor.h"

namespace mlbench::catalog {

struct ExecutorRow {
  const char* name;
  Availability (*available)();
  std::unique_ptr<exec::Executor> (*make)();
};
const std::vector<ExecutorRow>& executors();

// UserError listing the valid names.
std::unique_ptr<exec::Executor> make_executor(const std::string& name);

}  // namespace mlbench::catalog
