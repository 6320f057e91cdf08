#pragma once

// One local mpirun that starts the guards of all ranks.

#include <string>
#include <vector>

#include "mlbench/base/process.h"
#include "mlbench/exec/executor.h"

namespace mlbench::exec::local {

// mpirun with the guards and the request's command; what it says goes to mpirun.seg-S.log. `containers`: for each rank
// the command that starts it in an image, guard included; none: ranks are programs of this host.
ProcessOptions mpirun(const LaunchRequest& request, const std::vector<std::vector<std::string>>& containers = {});

// Of that mpirun and ranks in images, which see it at the same path: what they share beside memory.
std::filesystem::path session_folder(const LaunchRequest& request);

}  // namespace mlbench::exec::local
