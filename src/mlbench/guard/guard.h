#pragma once

// The life of one rank, as its guard sees it.

#include <string>
#include <vector>

namespace mlbench::guard {

// The body of `mlbench-guard LAUNCHER COMMAND...`. LAUNCHER says whose variables tell the rank: "direct" (RANK,
// WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE), "openmpi", "slurm" or "kubernetes". The rank gets the first four in any
// case. Returns the rank's exit code, once the supervisor has closed the channel. Throws UserError where something is
// missing that the supervisor or the launcher must give.
int guard_rank(const std::vector<std::string>& arguments);

}  // namespace mlbench::guard
