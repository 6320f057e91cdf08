#pragma once

// The ranks of a run as children of one local mpirun, each under a guard (exec/guard.h).

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mlbench/exec/executor.h"

namespace mlbench::exec::local {

// mpirun with the guards and the request's command.
std::vector<std::string> mpirun_command(const LaunchRequest& request);
// The request's, and what mpirun wants to hear before it runs as root.
std::map<std::string, std::string> mpirun_environment(const LaunchRequest& request);

// Returns when all ranks run. IoError with mpirun's last words when they do not.
std::unique_ptr<RankGroup> start_under_mpirun(const LaunchRequest& request);

}  // namespace mlbench::exec::local
