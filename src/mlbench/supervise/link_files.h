#pragma once

// What crosses the links of a segment whose ranks share no folder with this host.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/net/link/link.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::supervise {

// From the ranks: what they write, in the order in which it is to come, no event without its steps; and the checkpoints
// that rank 0 has finished.
net::LinkServerOptions link_options(const spec::RunSpec& run, int64_t segment);

// To the ranks, before they run: the checkpoint from which they resume, the spools of rank 0 so far, which tell how
// much of its time a run has had, and what they go on writing. UserError where there is no such checkpoint.
std::function<std::vector<std::string>(int rank)> files_to_resume(const spec::RunSpec& run,
                                                                  std::optional<int64_t> resume_step);

}  // namespace mlbench::supervise
