#pragma once

// Makes executors out of the rows of catalog/options.

#include <memory>
#include <string>

#include "mlbench/base/json.h"
#include "mlbench/catalog/options/executors.h"
#include "mlbench/exec/executor.h"

namespace mlbench::catalog {

// Makes the executor called `name`. Throws UserError listing the valid names, or naming an option in `engine` that this
// executor does not take, and the executors that take it.
std::unique_ptr<exec::Executor> make_executor(const std::string& name, const Json& engine = Json::object());

}  // namespace mlbench::catalog
