#pragma once

// What ranks use of the nodes that they are on.

#include <filesystem>

#include "mlbench/base/json.h"

namespace mlbench::master {

// Of a run that goes on: [{"run", "rank", "node", "cpu_cores", "memory_bytes", "network_in_bytes_per_s",
// "network_out_bytes_per_s"}] of each rank whose place is known, as the supervisor saw it last; null is what it did not
// see. Empty where nothing can be read.
Json ranks_on_nodes(const std::filesystem::path& run_dir);

}  // namespace mlbench::master
