#pragma once

// Buffers on the rank's GPU.

#include <memory>

#include "mlbench/comm/communicator.h"
#include "mlbench/comm/memory.h"

namespace mlbench::comm::nccl_backend {

// Memory on the GPU that make() uses for the same options, with a stream of its own. Throws UserError where there is no
// GPU, and CommError where the GPU has no room or fails.
std::unique_ptr<Memory> make_memory(const CommOptions& options);

}  // namespace mlbench::comm::nccl_backend
