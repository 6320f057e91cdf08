#pragma once

// Says which files cross the links of a segment whose ranks share no folder with this host.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mlbench/net/link/link.h"
#include "mlbench/spec/run_spec.h"

namespace mlbench::supervise {

// Options for what comes from the ranks: the files that they write, in an order in which no event comes before its
// steps, and the checkpoints that rank 0 has finished.
net::LinkServerOptions link_options(const spec::RunSpec& run, int64_t segment);

// Returns the files to give to each rank before it runs: the checkpoint from which it resumes, the spools of rank 0 so
// far (which tell how much of its time a run has used), and files that the rank appends to. Null where `resume_step` is
// empty. Throws UserError where there is no such checkpoint.
std::function<std::vector<std::string>(int rank)> files_to_resume(const spec::RunSpec& run,
                                                                  std::optional<int64_t> resume_step);

}  // namespace mlbench::supervise
