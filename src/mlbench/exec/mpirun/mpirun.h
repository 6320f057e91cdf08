#pragma once

#include <memory>

#include "mlbench/base/availability.h"
#include "mlbench/base/json.h"
#include "mlbench/exec/executor.h"

namespace mlbench::exec::mpirun {

// Ranks on hosts that ssh reaches: one `mpirun` (Open MPI 4.1) on the supervisor's host starts the guards of all ranks,
// whatever the back end; they come over links. It takes the engine's hosts, ranks per host, ssh_config, scratch
// and image (container.h: podman or docker is on each host).
// UserError from all that it is asked where there are no hosts, or such as cannot be used together.
std::unique_ptr<Executor> make(const Json& engine);
Availability available();

}  // namespace mlbench::exec::mpirun
