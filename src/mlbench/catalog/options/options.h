#pragma once

// The rows of all options that runs are asked for with: those of spec/run_options.h, and what each executor takes. And
// what is known of executors without making one.

#include <span>
#include <string>
#include <string_view>

#include "mlbench/exec/facts.h"
#include "mlbench/spec/run_options.h"

namespace mlbench::catalog {

// In the order of help; what several executors take is there once.
spec::RunOptionRows run_options();

// What holds of an executor: nothing where there is none of that name.
exec::ExecutorFacts facts_of(std::string_view executor);

// What an executor takes; empty where there is none of that name.
spec::RunOptionRows options_of(std::string_view executor);
bool takes(std::string_view executor, std::string_view option);

// "--max-steps", of the name of an option; that name where it has no flag.
std::string label_of_option(std::string_view name);

}  // namespace mlbench::catalog
