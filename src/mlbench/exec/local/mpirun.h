#pragma once

// One local mpirun that starts the guards of all ranks.

#include <string>
#include <vector>

#include "mlbench/base/process.h"
#include "mlbench/exec/executor.h"

namespace mlbench::exec::local {

// mpirun with the guards and the request's command; its output goes to mpirun.seg-S.log. `containers` has the command
// that starts each rank in an image, guard included; where it is empty, ranks are programs of this host. Throws
// UserError where ranks get a GPU each and there are fewer.
ProcessOptions mpirun(const LaunchRequest& request, const std::vector<std::vector<std::string>>& containers = {});

// The folder of the session of that mpirun and its ranks in images, which see it at the same path: they share it beside
// memory.
std::filesystem::path session_folder(const LaunchRequest& request);

}  // namespace mlbench::exec::local
