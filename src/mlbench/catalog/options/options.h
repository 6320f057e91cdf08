#pragma once

// The rows of all options that a request for a run can have: those of spec/run_options.h, and those of each executor.
// Also says what is known of executors without making one.

#include <span>
#include <string>
#include <string_view>

#include "mlbench/exec/facts.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::catalog {

// All options in the order of help; an option that several executors take is there once.
spec::RunOptionRows run_options();

// The facts about an executor; those of a default ExecutorFacts for an unknown name.
exec::ExecutorFacts facts_of(std::string_view executor);

// The options that an executor takes; empty for an unknown name.
spec::RunOptionRows options_of(std::string_view executor);
bool takes(std::string_view executor, std::string_view option);

// The flag of an option, "--max-steps" for "max_steps"; the name itself where the option has no flag.
std::string label_of_option(std::string_view name);

}  // namespace mlbench::catalog
