#pragma once

// The rows of all options that runs are asked for with: those of spec/run_options.h, and what each executor takes.

#include <span>
#include <string>
#include <string_view>

#include "mlbench/spec/run_options.h"

namespace mlbench::catalog {

// In the order of help; what several executors take is there once.
spec::RunOptionRows run_options();

// What an executor takes; empty where there is none of that name.
spec::RunOptionRows options_of(std::string_view executor);
bool takes(std::string_view executor, std::string_view option);

// "--max-steps", of the name of an option; that name where it has no flag.
std::string label_of_option(std::string_view name);

}  // namespace mlbench::catalog
