#pragma once

#include <memory>

#include "mlbench/base/availability.h"
#include "mlbench/base/json.h"
#include "mlbench/exec/executor.h"
#include "mlbench/exec/local/options.h"
#include "mlbench/exec/row.h"

namespace mlbench::exec::local {

// Makes the executor whose ranks are processes of this host. A rank has RANK, WORLD_SIZE, LOCAL_RANK and
// LOCAL_WORLD_SIZE in its environment, beside the request's variables. The supervisor adds MASTER_ADDR, which is
// 127.0.0.1, and MASTER_PORT to these. With the back end mpi, one local mpirun starts the ranks. `engine` may have the
// option `image`: then each rank is in a container (container.h).
std::unique_ptr<Executor> make(const Json& engine = Json::object());
Availability available();  // always true; a start that needs mpirun looks for it

inline constexpr ExecutorRow kExecutor = {"local", "processes on this host", kFacts, kOptions, available, make};

}  // namespace mlbench::exec::local
