#pragma once

// What the chosen cluster sets for runs that are started from here.

#include "mlbench/cli/context.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::cli {

// Where the chosen cluster is one of hosts or of Slurm, sets its executor in `options`, and those of its options that
// were not given. Sets nothing with -u, or where another executor was given. Says on standard error what it sets.
// Throws UserError for a cluster that is not complete.
void apply_cluster(const Context& context, bool executor_given, spec::RunOptions& options);

}  // namespace mlbench::cli
