#pragma once

// Ranks of this host, each under a guard (guard/README.md).

#include <functional>
#include <memory>
#include <vector>

#include "mlbench/base/process.h"
#include "mlbench/exec/executor.h"

namespace mlbench::exec {

// Of ranks in containers.
struct Surroundings {
  Json allocation = nullptr;                 // RankGroup::allocation()
  std::function<void()> clear_up = nullptr;  // called when nothing of the group runs any more; throws nothing
};

// Starts the launchers (a guard per rank; an engine of containers per rank, which has RANK in its environment, with a
// guard within; or one program that starts the guards) with the address where guards connect.
// It fails with the last words of a launcher or guard, also when not all ranks run within 60 s of being polled.
//
// This process becomes a subreaper: what a killed guard leaves behind becomes its child, and is ended. So it has no
// other children while there is such a start or group.
std::unique_ptr<Start> start_guarded(const LaunchRequest& request, std::vector<Placement> placement,
                                     std::vector<ProcessOptions> launchers, Surroundings around = {});

}  // namespace mlbench::exec
