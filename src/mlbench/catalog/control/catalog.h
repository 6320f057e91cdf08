#pragma once

// The control plane's table of implementations: one row per executor.

#include <memory>
#include <string>
#include <vector>

#include "mlbench/base/availability.h"
#include "mlbench/exec/executor.h"
#include "mlbench/spec/engine.h"

namespace mlbench::catalog {

struct ExecutorRow {
  const char* name;
  Availability (*available)();
  std::unique_ptr<exec::Executor> (*make)(const spec::EngineOptions&);
  std::vector<std::string> options = {};  // of the engine, that it takes: by the names of RunRequest
};
const std::vector<ExecutorRow>& executors();

// UserError listing the valid names, or naming an option that this executor does not take, and those that do.
std::unique_ptr<exec::Executor> make_executor(const std::string& name, const spec::EngineOptions& engine = {});

// Whether ranks of this executor see the files of an image; false where there is none of that name.
bool in_images(const std::string& name);
// Whether its ranks run on this host; false where there is none of that name.
bool on_this_host(const std::string& name);

}  // namespace mlbench::catalog
