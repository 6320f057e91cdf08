#pragma once

// One local mpirun that starts the guards of all ranks.

#include "mlbench/base/process.h"
#include "mlbench/exec/executor.h"

namespace mlbench::exec::local {

// mpirun with the guards and the request's command; what it says goes to mpirun.seg-S.log.
ProcessOptions mpirun(const LaunchRequest& request);

}  // namespace mlbench::exec::local
