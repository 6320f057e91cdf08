#pragma once

// Gloo's own collectives in its asynchronous mode, which PyTorch's back end "gloo" calls. Reductions use the additions
// of comm/reduce.h, which know 16-bit types.

#include <chrono>
#include <memory>

#include "mlbench/comm/gloo/collectives.h"
#include "mlbench/comm/gloo/connected.h"

namespace mlbench::comm::gloo_backend {

// Makes Gloo's collectives over the connections of `context`, which tagged messages may use, too. Gloo has no
// reduce_scatter: all ranks reduce all blocks, as in PyTorch.
std::unique_ptr<Collectives> make_library_collectives(std::shared_ptr<ConnectedContext> context,
                                                      std::chrono::milliseconds timeout);

}  // namespace mlbench::comm::gloo_backend
