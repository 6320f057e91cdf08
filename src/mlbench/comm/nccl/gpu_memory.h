#pragma once

// Buffers on the rank's GPU.

#include <memory>

#include "mlbench/comm/communicator.h"
#include "mlbench/comm/memory.h"

namespace mlbench::comm::nccl_backend {

// On the GPU that make() with the same options takes, in a stream of their own. UserError without a GPU; CommError when
// the GPU has no room or fails.
std::unique_ptr<Memory> make_memory(const CommOptions& options);

}  // namespace mlbench::comm::nccl_backend
