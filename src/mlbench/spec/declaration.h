#pragma once

// What the command of a custom run declares that it trains: a task with its data set and goal. Such a run has the
// task's name, hash, overrides and goal as a training has them. Its division stays "custom", since how it trains is the
// command's own.

#include <string>
#include <vector>

#include "mlbench/spec/run_spec.h"

namespace mlbench::spec {

// Makes the task, with these overrides, what the run's command declares. `data` is the name of a data set.
// Precondition: set_command() has made `spec` a custom run.
void declare(RunSpec& spec, FrozenTask task, std::vector<Override> overrides, std::string data);

// Whether the run is that of a command which declares a task.
bool declares_task(const RunSpec& spec);

}  // namespace mlbench::spec
