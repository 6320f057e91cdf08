#pragma once

#include <memory>

#include "mlbench/base/availability.h"
#include "mlbench/base/json.h"
#include "mlbench/exec/executor.h"
#include "mlbench/exec/mpirun/options.h"
#include "mlbench/exec/row.h"

namespace mlbench::exec::mpirun {

// Makes the executor whose ranks are on hosts that ssh reaches. One `mpirun` (Open MPI 4.1) on the supervisor's host
// starts the guards of all ranks, whatever the back end; the guards come over links. `engine` has the options of
// mpirun/options.h. Where ranks run in an image, each host needs podman or docker (container.h).
// rendezvous(), start() and describe() throw UserError where no hosts are named, or hosts that cannot be used together.
std::unique_ptr<Executor> make(const Json& engine);
Availability available();

inline constexpr ExecutorRow kExecutor = {
    "mpirun", "processes on hosts that ssh reaches, by Open MPI's mpirun", kFacts, kOptions, available, make};

}  // namespace mlbench::exec::mpirun
