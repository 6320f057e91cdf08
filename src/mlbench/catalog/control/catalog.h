#pragma once

// The control plane's table of implementations: one row per executor. What each takes: catalog/options.

#include <memory>
#include <string>
#include <vector>

#include "mlbench/base/availability.h"
#include "mlbench/base/json.h"
#include "mlbench/exec/executor.h"

namespace mlbench::catalog {

struct ExecutorRow {
  const char* name;
  Availability (*available)();
  std::unique_ptr<exec::Executor> (*make)(const Json& engine);
};
const std::vector<ExecutorRow>& executors();

// UserError listing the valid names, or naming an option that this executor does not take, and those that do.
std::unique_ptr<exec::Executor> make_executor(const std::string& name, const Json& engine = Json::object());

// Whether ranks of this executor see the files of an image; false where there is none of that name.
bool in_images(const std::string& name);
// Whether its ranks run on this host; false where there is none of that name.
bool on_this_host(const std::string& name);

}  // namespace mlbench::catalog
