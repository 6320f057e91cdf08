#pragma once

// Ranks of this host, each under a guard (guard/README.md).

#include <functional>
#include <memory>
#include <vector>

#include "mlbench/base/process.h"
#include "mlbench/exec/executor.h"

namespace mlbench::exec {

// What a group of ranks in containers has in addition.
struct Surroundings {
  Json allocation = nullptr;                 // what RankGroup::allocation() returns
  std::function<void()> clear_up = nullptr;  // called when nothing of the group runs any more; must not throw
};

// The limit until all ranks run. It is longer for containers, as their engine may copy the whole image for each.
std::chrono::seconds start_patience(const LaunchRequest& request);

// Starts the launchers, with the address where guards connect in their environment. `launchers` are one guard per rank;
// or one container engine per rank, which has RANK in its environment and runs a guard; or one program that starts the
// guards. The start fails with the last words of a launcher or guard, also when not all ranks run within
// start_patience() after the first poll().
//
// This process becomes a subreaper: what a killed guard leaves behind becomes its child, and is killed. Precondition:
// this process has no other children while there is such a start or group.
std::unique_ptr<Start> start_guarded(const LaunchRequest& request, std::vector<Placement> placement,
                                     std::vector<ProcessOptions> launchers, Surroundings around = {});

}  // namespace mlbench::exec
