#pragma once

// A worker program: one rank of one run. Programs differ in their frameworks alone.

#include "mlbench/catalog/worker/catalog.h"
#include "mlbench/worker/rank.h"

namespace mlbench::worker {

// Runs the program, and returns its exit code. Precondition: the process has no other threads yet. `options` has
// defaults and settings that the command line lacks.
int run_program(int argc, char** argv, const catalog::WorkerProgram& program, const RankOptions& options = {});

}  // namespace mlbench::worker
