#pragma once

#include <memory>

#include "mlbench/base/availability.h"
#include "mlbench/base/json.h"
#include "mlbench/exec/executor.h"

namespace mlbench::exec::local {

// Ranks as processes of this host: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE in the environment, beside what the
// request has (from the supervisor: MASTER_ADDR, which is 127.0.0.1, and MASTER_PORT). With the back end mpi they are
// started by one local mpirun. Of the engine's options it takes the image: each rank is in a container (container.h).
std::unique_ptr<Executor> make(const Json& engine = Json::object());
Availability available();  // everywhere; mpirun is asked for by those who need it

}  // namespace mlbench::exec::local
