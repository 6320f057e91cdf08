#pragma once

// What ranks use on the nodes where they run.

#include <filesystem>

#include "mlbench/base/json.h"

namespace mlbench::master {

// Returns for an active run [{"run", "rank", "node", "cpu_cores", "memory_bytes", "network_in_bytes_per_s",
// "network_out_bytes_per_s"}], one entry per rank whose place is known, with the supervisor's last figures; a figure
// that it did not see is null. Empty where nothing can be read.
Json ranks_on_nodes(const std::filesystem::path& run_dir);

}  // namespace mlbench::master
