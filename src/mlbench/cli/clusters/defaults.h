#pragma once

// What the chosen cluster says about runs that are started from here.

#include "mlbench/cli/context.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::cli {

// A cluster of hosts or of Slurm: its executor, unless one was given, and then of its options those that were not.
// Nothing with -u, or where another executor was given. Says what it sets.
void apply_cluster(const Context& context, bool executor_given, spec::RunOptions& options);

}  // namespace mlbench::cli
