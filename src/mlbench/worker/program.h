#pragma once

// mlbench-worker: one rank of one run.

#include "mlbench/worker/rank.h"

namespace mlbench::worker {

// What main does, of a process that has no threads yet. `options` holds what the command line does not say. Returns the
// exit code.
int run_program(int argc, char** argv, const RankOptions& options = {});

}  // namespace mlbench::worker
