#pragma once

// Ranks of this host, each under a guard (guard/README.md).

#include <memory>
#include <vector>

#include "mlbench/base/process.h"
#include "mlbench/exec/executor.h"

namespace mlbench::exec {

// Starts the launchers (a guard per rank, or one program that starts the guards) with the address where guards connect,
// and returns when all ranks run. IoError with the last words of a launcher or guard when they do not.
//
// This process becomes a subreaper: what a killed guard leaves behind becomes its child, and is ended. So it has no
// other children while there is such a group.
std::unique_ptr<RankGroup> start_guarded(const LaunchRequest& request, std::vector<ProcessOptions> launchers);

}  // namespace mlbench::exec
